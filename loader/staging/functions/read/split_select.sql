-- The parts of a SELECT as pg_get_viewdef prints it: what stands before its list, the entries without their names, and
-- what comes after, without ORDER BY.
create or replace function cdc.split_select(sql text, out head text, out entries text[], out tail text)
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
declare
    tokens text[];
    depths bigint[];
    list_start bigint;
    list_end bigint;
    tail_end bigint;
begin
    select array_agg(one.token order by one.ordinal), array_agg(one.depth order by one.ordinal) into tokens, depths
    from cdc.scan(sql) as one;
    select min(one.ordinal) into list_start
    from unnest(tokens, depths) with ordinality as one (token, depth, ordinal)
    where one.depth = 0 and one.token = 'SELECT';
    select coalesce(min(one.ordinal), cardinality(tokens) + 1) into list_end
    from unnest(tokens, depths) with ordinality as one (token, depth, ordinal)
    where one.ordinal > list_start and one.depth = 0
        and one.token in ('FROM', 'WHERE', 'GROUP', 'HAVING', 'ORDER', 'LIMIT', 'OFFSET', 'UNION', 'INTERSECT', 'EXCEPT', ';')
        -- Of a percentile: WITHIN GROUP (ORDER BY ...).
        and tokens[one.ordinal - 2] is distinct from 'WITHIN';
    select coalesce(min(one.ordinal), cardinality(tokens) + 1) into tail_end
    from unnest(tokens, depths) with ordinality as one (token, depth, ordinal)
    where one.ordinal >= list_end and one.depth = 0 and one.token in ('ORDER', ';');
    head := array_to_string(tokens[:list_start], '');
    tail := array_to_string(tokens[list_end:tail_end - 1], '');
    entries := array(
        -- Only the name of an entry comes after AS: a cast is printed as ::.
        select trim(e' \n' from string_agg(one.token, '' order by one.ordinal) filter (where one.ordinal < one.named_at))
        from (
            select
                listed.*,
                coalesce(min(case when listed.token = 'AS' and listed.depth = 0 then listed.ordinal end) over (
                    partition by listed.entry
                ), list_end) as named_at
            from (
                select
                    one.token,
                    one.depth,
                    one.ordinal,
                    count(*) filter (where one.token = ',' and one.depth = 0) over (order by one.ordinal) as entry
                from unnest(tokens, depths) with ordinality as one (token, depth, ordinal)
                where one.ordinal > list_start and one.ordinal < list_end
            ) as listed
            where listed.token <> ',' or listed.depth <> 0
        ) as one
        group by one.entry
        order by one.entry
    );
end
$$;
