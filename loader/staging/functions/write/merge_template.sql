-- The statement of write_merge that finds groups by the unique index on the columns.
create or replace function cdc.merge_template() returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select
$merge$with merged as (
    insert into {relation} as stored (
        {columns}
    )
    select
        {values}
    from {totals} as totals
    on conflict ({conflict}) do update set
        {additions}
    returning
        {returned}
)

-- The groups that have no rows any more; and for dependents the rows as they were and as they are.
select done.emptied, done.least, changed_rows.before, changed_rows.after
into waltally_emptied, waltally_least_count, before, after
from (
    select array_agg(waltally_ctid) filter (where waltally_rows = 0) as emptied, min(waltally_least) as least
    from merged
) as done
cross join (
    {changed_rows}
) as changed_rows;$merge$
$$;
