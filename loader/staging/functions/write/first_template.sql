-- The part of write_merge that writes to an empty table. No group is there that could have the same key, and a sum of
-- rows is not below zero.
create or replace function cdc.first_template() returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select
$first$if {is_empty} then
    -- No group is there: a plain INSERT in the order of the key takes half the time.
    insert into {relation} (
        {columns}
    )
    select
        {values}
    from {totals} as totals
    {ordered};
    return;
end if;

$first$
$$;
