-- SQL of write_comparison for what a model keeps and, of several sources, for the part of each: as the model has it,
-- as the source gives it, both added up, their totals, and both beside each other. What the source gives is null
-- where it has no such group, and of a sum of no values. Of rows the number of those that look alike is compared.
-- Counts are added up as the integers that they are, which takes a third less than numerics.
create or replace function cdc.compared_columns(compiled jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    with state as (
        select value ->> 'name' as name, value ->> 'type' as type, value ->> 'counted_by' as counted_by, ordinal
        from jsonb_array_elements(compiled -> 'state_columns') with ordinality as one (value, ordinal)
        where compiled ->> 'kind' <> 'rows'
        union all
        select 'rows', 'bigint', null, 1
        where compiled ->> 'kind' = 'rows'
    ),

    columns as (
        select state.name, state.type, state.ordinal, state.ordinal as state_ordinal, 'not is_own' as whose, counting.ordinal as counting_ordinal
        from state
        left join state as counting on counting.name = state.counted_by
        union all
        select part.name, state.type, part.ordinal + (select count(*) from state), state.ordinal, 'source_no = ' || part.source_no::text, null
        from cdc.part_columns(compiled) as part
        inner join state on state.name = part.state_name and compiled ->> 'kind' <> 'rows'
    ),

    added as (
        select columns.*, format(
            case
                when counting_ordinal is not null
                    then 'case when sum(own_%3$s) filter (where not is_own) > 0 then coalesce(sum(own_%1$s) filter (where %2$s), 0) end'
                -- A total has its row of zeros without any rows.
                when (compiled ->> 'is_total')::boolean then 'coalesce(sum(own_%1$s) filter (where %2$s), 0)'
                else 'case when not bool_and(is_own) then coalesce(sum(own_%1$s) filter (where %2$s), 0) end'
            end,
            state_ordinal, whose, counting_ordinal
        ) as given
        from columns
    )

    select jsonb_build_object(
        'own', string_agg(format(
            case when compiled ->> 'kind' = 'rows' then '1::%3$s as own_%2$s' else '%1$I::%3$s as own_%2$s' end, name, ordinal, type
        ), ', ' order by ordinal),
        'given', string_agg(format('given.sums[%s]::%s', state_ordinal, type), ', ' order by ordinal),
        'sums', string_agg(format(
            'sum(own_%1$s) filter (where is_own) as own_%1$s, %2$s as right_%1$s, '
            'sum(own_%1$s) filter (where is_ignored) as ignored_%1$s', ordinal, given
        ), e',\n' order by ordinal),
        'totals', string_agg(format(
            'array[%1$L, coalesce(trim_scale(sum(own_%2$s)), 0)::text, coalesce(trim_scale(sum(right_%2$s)), 0)::text, '
            'coalesce(trim_scale(sum(ignored_%2$s)), 0)::text]', name, ordinal
        ), e',\n' order by ordinal),
        'own_list', string_agg(format('own_%s', ordinal), ', ' order by ordinal),
        'right_list', string_agg(format('right_%s', ordinal), ', ' order by ordinal),
        'pairs', string_agg(
            format('(%1$L, own_%2$s, right_%2$s, %3$s)', name, ordinal, (counting_ordinal is null)::text), ', ' order by ordinal
        )
    )
    from added
$$;
