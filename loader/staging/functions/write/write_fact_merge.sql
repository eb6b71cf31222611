-- SQL: the function by which a fact's routine adds what its `totals`, the function of write_fact_totals, gives to its
-- table. It leaves that to `by_hash`, which this writes with a null there, where a key once was too long for the unique
-- index.
create or replace function cdc.write_fact_merge(compiled jsonb, merge text, totals text, relation text, by_hash text)
returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$
create or replace function {merge}(
    step text,
    slot text,
    good cdc.change[],
    table_nos integer[],
    ordinals integer[],
    truncated text[],
    waltally_truncated integer[],
    waltally_group text,
    changed_rows anyarray,
    out waltally_emptied tid[], out before anyarray, out after anyarray
)
language plpgsql set search_path = pg_catalog, pg_temp
as $routine$
#variable_conflict use_column
declare
    waltally_least_count numeric;
begin
    {by_hash}
    {statement}
end
$routine$
$template$,
        jsonb_build_object(
            'merge', merge,
            'by_hash', case when by_hash is not null and cdc.key_hash(compiled) is not null then format(
                $long$if $1 <> 'rebuild' and not cdc.has_short_keys(%L) then
    -- A key once was too long for the unique index.
    select * into waltally_emptied, before, after
    from %s($1, $2, $3, $4, $5, $6, $7, $8, $9);
    return;
end if;
$long$, relation, by_hash
            ) else '' end,
            'statement', cdc.write_merge(
                compiled, relation,
                case when keys.collated = keys.names then own.call else format(
                    e'(\n    select %s\n    from %s as own\n)', concat_ws(', ', keys.collated, nullif(cdc.write_names(compiled -> 'state_columns', '%I'), ''), own.parts), own.call
                ) end,
                '$9 is not null', by_hash is null, case when by_hash is not null then '$1 = ''rebuild''' end
            )
        )
    )
    from (
        select
            format('%s($1, $2, $3, $4, $5, $6, $7, $8)', totals) as call,
            (select string_agg(quote_ident(part.name), ', ') from cdc.part_columns(compiled) as part) as parts
    ) as own
    cross join (
        -- What a function gives has lost its collation.
        select cdc.write_collated(compiled, compiled -> 'keys') as collated, cdc.write_names(compiled -> 'keys', '%I') as names
    ) as keys
$$;
