-- The nodes of a query's parse tree, each by its path, with its own fields that are no nodes. `queries` are the paths
-- of the queries that it stands in, the innermost last; of an aggregate the last is the one whose rows it aggregates.
-- `container` is what it is computed for: a select's entry, a column of a join, else the innermost query itself. A node
-- that does not say its type has it as "resulttype".
create or replace function cdc.tree_nodes(tree jsonb) returns setof cdc.tree_node
language sql stable strict set search_path = pg_catalog, pg_temp as $$
    with recursive walk as (
        select
            'q'::text as path,
            tree as value,
            array['q'] as queries,
            'q'::text as container
        union all
        select
            child.path,
            child.value,
            case when child.is_query then walk.queries || child.path else walk.queries end,
            case
                when child.is_query or child.path ~ '\.(targetList|joinaliasvars|groupexprs)\.[0-9]+$' then child.path
                else walk.container
            end
        from walk
        cross join lateral (
            select
                walk.path || '.' || one.key as path,
                one.value,
                one.value ->> '_' is not distinct from 'QUERY' as is_query
            from (
                select field.key, field.value
                from jsonb_each(case when jsonb_typeof(walk.value) = 'object' then walk.value end) as field
                union all
                select element.ordinal::text, element.value
                from jsonb_array_elements(case when jsonb_typeof(walk.value) = 'array' then walk.value end)
                    with ordinality as element (value, ordinal)
            ) as one
            where jsonb_typeof(one.value) in ('object', 'array')
        ) as child
    )

    select
        walk.path,
        case when walk.path <> 'q' then regexp_replace(walk.path, '\.[^.]+(\.[0-9]+)?$', '') end,
        walk.value ->> '_',
        (
            select jsonb_object_agg(field.key, field.value)
            from jsonb_each(walk.value) as field
            where jsonb_typeof(field.value) not in ('object', 'array')
        ) || case
            when walk.value ->> '_' in ('SUBLINK', 'COLLATEEXPR', 'NAMEDARGEXPR')
                then jsonb_build_object('resulttype', cdc.expression_type(walk.value))
            else '{}'
        end,
        walk.queries[:cardinality(walk.queries) - coalesce((walk.value ->> 'agglevelsup')::integer, 0)],
        walk.container
    from walk
    where jsonb_typeof(walk.value) = 'object'
$$;
