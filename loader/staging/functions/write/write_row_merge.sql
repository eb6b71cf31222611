-- SQL: bring what is left of a batch, `remaining`, into a rows model's table. Where it has dependents, before and after
-- get the rows that it changes: see write_changed_rows.
create or replace function cdc.write_row_merge(
    compiled jsonb, relation text, deltas text, columns text[], keys text[]
) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
-- A part of a transaction may end while two rows have one key.
case when (compiled ->> 'needs_old_rows')::boolean then
$check$if exists (
    select from (select waltally_sign, {collated} from {deltas}(remaining, $4, $5)) as changed
    group by {keys}
    having count(*) filter (where waltally_sign = 1) > 1
        or min(waltally_sign) > 0 and exists (select from {relation} as stored where {is_changed})
) then
    raise exception 'two rows have one key in a part of a transaction'
        using errcode = 'WL004';
end if;
$check$ else '' end ||
$template$with changed as materialized (
    select waltally_sign, {collated}
    from {deltas}(remaining, $4, $5)
),

gone as (
    delete from {relation} as stored
    using (select {keys} from changed group by {keys} having max(waltally_sign) < 0) as former
    where {is_former}
    returning {stored_keys}
),

kept as (
    insert into {relation} as stored (
        {columns}
    )
    select
        {values}
    from changed
    where waltally_sign = 1
    on conflict ({keys}) do update set ({columns}) = row(
        {excluded}
    )
    -- As they are spelled: some types have no equality, and 1.5 and 1.50 are equal.
    where record_image_ne(row(
        {stored}
    ), row(
        {excluded}
    ))
    returning {stored_keys}, case when $7 is not null then stored.* end as waltally_row
),

touched as (
    select {keys}, null as waltally_row from gone
    union all
    select {keys}, waltally_row from kept
)

select changed_rows.before, changed_rows.after
into before, after
from (
    {changed_rows}
) as changed_rows;$template$,
        jsonb_build_object(
            'relation', relation,
            'deltas', deltas,
            'collated', cdc.write_collated(compiled, (compiled -> 'keys') || (compiled -> 'state_columns')),
            'columns', cdc.join_lines(columns),
            'values', (select cdc.join_lines(array_agg(cdc.write_whole(format('changed.%I', one.name), one.exact, relation) order by one.ordinal)) from cdc.list_columns(compiled) as one),
            'stored', cdc.join_lines(array(select 'stored.' || name from unnest(columns) as name)),
            'excluded', cdc.join_lines(array(select 'excluded.' || name from unnest(columns) as name)),
            'keys', array_to_string(keys, ', '),
            'changed_rows', cdc.write_changed_rows(compiled, relation, 'touched', '$7 is not null'),
            'stored_keys', 'stored.' || array_to_string(keys, ', stored.'),
            'is_former', cdc.write_names(compiled -> 'keys', 'stored.%1$I %5$s former.%1$I', ' and '),
            'is_changed', cdc.write_names(compiled -> 'keys', 'stored.%1$I %5$s changed.%1$I', ' and ')
        )
    )
$$;
