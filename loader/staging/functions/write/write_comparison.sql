-- SQL that compares what a model keeps with what its query gives at the source, in a row: how many groups there are;
-- of each measure its name and its totals in the model, at the source, and of ignored deletes; how many values
-- differ; and the `most` largest of these as [key, measure, in the model, at the source], null where there is no such
-- group.
--
-- counted       a query that gives a row a group and range, as write_range does, and its `part`
-- ignored       a query of the deletes that the model ignored: part, dimensions, measures
-- is_uncertain  whether more deletes were ignored than are known: then only a count that is too small is a difference
create or replace function cdc.write_comparison(
    compiled jsonb, relation text, counted text, ignored text, is_uncertain boolean, most integer
) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$
with together as (
    select {own_keys}true as is_own, false as is_ignored, null::integer as source_no, {own}
    from {relation}
    union all
    select {given_keys}false, given.is_ignored, array_position({tables}, given.part), {given}
    from (
        select counted.part, counted.dimensions, counted.sums, false as is_ignored
        from ({counted}) as counted
        union all
        select ignored.part, ignored.dimensions, ignored.measures::text[], true
        from ({ignored}) as ignored
    ) as given
),

groups as materialized (
    select
        array[{key_texts}]::text[] as dimensions,
        {sums}
    from together
    {grouped}
),

differing as materialized (
    select groups.dimensions, measure.*
    from groups
    cross join lateral (values {pairs}) as measure (name, own, counted, is_count)
    where
        row({own_list}) is distinct from row({right_list})
        and measure.own is distinct from measure.counted
        {unless_uncertain}
)

select
    count(*),
    array[{totals}],
    (select count(*) from differing),
    (
        select coalesce(jsonb_agg(
            jsonb_build_array(dimensions, name, trim_scale(own)::text, trim_scale(counted)::text)
        ), '[]')
        from (
            select * from differing
            order by abs(coalesce(own, 0) - coalesce(counted, 0)) desc, name, dimensions
            limit {most}
        ) as largest
    )
from groups
$template$,
        cdc.compared_keys(compiled) || cdc.compared_columns(compiled) || jsonb_build_object(
            'relation', relation,
            'counted', counted,
            'ignored', ignored,
            'tables', cdc.write_tables(compiled),
            'unless_uncertain', case when is_uncertain
                then 'and measure.is_count and coalesce(measure.own, 0) < coalesce(measure.counted, 0)' else '' end,
            'most', most
        )
    )
$$;
