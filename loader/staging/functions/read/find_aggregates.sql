-- An expression over totals as the tokens between its aggregates and the aggregates: pieces 2, 4, ... are aggregates.
create or replace function cdc.find_aggregates(expression text) returns text[]
language plpgsql stable strict set search_path = pg_catalog, pg_temp as $$
declare
    pieces text[] := array[''];
    open_at bigint;
    one record;
begin
    for one in
        select
            scanned.*,
            lead(scanned.token) over (order by scanned.ordinal) as next_token,
            lag(scanned.token) over (order by scanned.ordinal) as former_token,
            lead(scanned.token, 2) over (order by scanned.ordinal) as filter_token
        from cdc.scan(expression) as scanned
        order by scanned.ordinal
    loop
        if
            open_at is null and one.next_token = '(' and one.former_token is distinct from '.'
            and exists (
                select from pg_proc as p
                where p.proname = one.token and p.prokind = 'a' and p.pronamespace = 'pg_catalog'::regnamespace
            )
        then
            pieces := array_append(pieces, '');
            open_at := one.depth;
        end if;
        pieces[cardinality(pieces)] := pieces[cardinality(pieces)] || one.token;
        if
            open_at is not null and one.token = ')' and one.depth = open_at + 1
            -- A filter belongs to the aggregate before it, and so does the order of a percentile.
            and coalesce(one.filter_token, '') not in ('FILTER', 'WITHIN')
        then
            pieces := array_append(pieces, '');
            open_at := null;
        end if;
    end loop;
    return pieces;
end
$$;
