-- The statement of write_merge: it finds groups by the unique index on the columns and, where a key may be too long for
-- that, by a hash.
create or replace function cdc.merge_template(may_be_long boolean) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    template constant text :=
$template$with totals as (
    -- What is added to each group.
    select
        {keys}{sums}
    from (
    {totals}
    ) as delta
    {grouped}
),

%s

-- The groups that have no rows any more; and for dependents the rows as they were and as they are.
select done.emptied, done.least, changed_rows.before, changed_rows.after
into waltally_emptied, waltally_least_count, before, after
from (
    select array_agg(waltally_ctid) filter (where waltally_rows = 0) as emptied, min(waltally_least) as least
    from merged
) as done
cross join (
    %s
) as changed_rows;
$template$;
    by_columns constant text := format(
        template,
$merge$merged as (
    -- The unique index finds the groups that are there.
    insert into {relation} as stored (
        {columns}
    )
    select
        {values}
    from totals
    on conflict ({conflict}) do update set
        {additions}
    returning
        {returned}
)$merge$,
        '{changed_rows}'
    );
    by_hash constant text := format(
        template, cdc.hash_template(),
        e'select array_agg(stored.*) as before, array_agg(merged.waltally_row) as after from merged'
        '\n    left join {relation} as stored on stored.ctid = merged.waltally_former where {returns_rows}'
    );
begin
    return case
        when may_be_long then
            'if cdc.has_short_keys({relation_name}) then' || e'\n' || by_columns
            || e'else\n-- A key once was too long for that index: a hash finds the groups.\n' || by_hash || e'end if;\n'
        else by_columns
    end || $check$if waltally_least_count < 0 then
    raise exception 'a number of rows or values would fall below zero' using errcode = 'WL004';
end if;
$check$;
end
$$;
