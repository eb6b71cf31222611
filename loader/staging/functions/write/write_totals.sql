-- SQL: what is added to each group of a fact. `changes` is a query that gives the source's number, the keys and what is
-- added to what is kept, or is kept now.
create or replace function cdc.write_totals(compiled jsonb, changes text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$select
    {keys}
    {sums}
from (
    {changes}
) as delta
{grouped}$template$,
        jsonb_build_object(
            'keys', case when own.keys <> '' then own.keys || ',' else '' end,
            'sums', cdc.write_sums(compiled),
            'changes', changes,
            -- Without GROUP BY the sums of no rows are a row too, and nothing is to be added.
            'grouped', case when own.names <> '' then 'group by ' || own.names else 'having count(*) > 0' end
        )
    )
    from (
        select
            cdc.write_collated(compiled, compiled -> 'keys') as keys,
            cdc.write_collated(compiled, compiled -> 'keys', false) as names
    ) as own
$$;
