-- The statement of write_merge that finds groups by a hash: it changes those that are there, and adds the others.
create or replace function cdc.hash_template() returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select
$merge$with found as (
    select totals.*, own.waltally_former
    from {totals} as totals
    left join lateral (
        select stored.ctid as waltally_former from {relation} as stored
        where {hash}
            = {totals_hash}
            and {is_same}
        limit 1
    ) as own on true
),

raised as (
    update {relation} as stored set
        {additions}
    from found as excluded
    where stored.ctid = excluded.waltally_former
    returning
        {returned}, excluded.waltally_former
),

added as (
    insert into {relation} as stored (
        {columns}
    )
    select
        {values}
    from found as totals
    where totals.waltally_former is null
    returning
        {returned}, null::tid
),

merged as (
    select * from raised union all select * from added
)

-- The groups that have no rows any more; and for dependents the rows as they were and as they are.
select
    array_agg(merged.waltally_ctid) filter (where merged.waltally_rows = 0), min(merged.waltally_least),
    array_agg(stored.*) filter (where {returns_rows}), array_agg(merged.waltally_row) filter (where {returns_rows})
into waltally_emptied, waltally_least_count, before, after
from merged
left join {relation} as stored on stored.ctid = merged.waltally_former and {returns_rows};$merge$
$$;
