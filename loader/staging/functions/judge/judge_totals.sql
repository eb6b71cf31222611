-- What an expression of totals may not do: divide by one that can be 0, which would stop the model when it is, or
-- look at how a numeric is spelled, which depends on the order of changes.
create or replace function cdc.judge_totals(nodes cdc.tree_node[], top_path text, is_total boolean)
returns table (reason text, remedy text, path text)
language sql stable set search_path = pg_catalog, pg_temp as $$
    with parts as (
        select node.*, coalesce(node.fields ->> 'funcid', node.fields ->> 'opfuncid')::oid as function_oid
        from unnest(nodes) as node
        where
            node.queries[cardinality(node.queries)] = top_path
            and starts_with(node.path, top_path || '.targetList.')
            -- Beside an aggregate in one expression, and not in an aggregate.
            and exists (
                select from unnest(nodes) as total
                where
                    total.type = 'AGGREF' and total.queries[cardinality(total.queries)] = top_path
                    and starts_with(total.path, node.path || '.')
            )
            and not exists (
                select from unnest(nodes) as total
                where total.type = 'AGGREF' and starts_with(node.path, total.path || '.')
            )
    )

    select
        'a division by a total that can be 0'::text,
        case when is_total then '`nullif(..., 0)` around it: without GROUP BY count(*) can be 0 too' else '`nullif(..., 0)` around it' end,
        parts.path
    from parts
    inner join pg_proc as p on p.oid = parts.function_oid
    where
        p.pronamespace = 'pg_catalog'::regnamespace
        and p.proname ~ '^(int[248]+(div|mod)|float[48]+div|numeric_(div|div_trunc|mod)|mod|div|interval_div|cash_div_.*)$'
        and not cdc.is_never_zero(nodes, parts.path || '.args.2', is_total)
    union
    select 'a numeric total as text, which would show zeros that depend on the order of changes', '`round(..., 2)` before the cast',
        parts.path
    from parts
    inner join unnest(nodes) as argument on argument.path in (parts.path || '.arg', parts.path || '.args.1')
    left join pg_proc as p on p.oid = parts.function_oid
    where
        (
            parts.type = 'COERCEVIAIO' and cdc.node_type(argument.fields) in (
                'numeric'::regtype, 'numeric[]'::regtype, 'numrange'::regtype, 'nummultirange'::regtype
            )
            or parts.type = 'ARRAYCOERCEEXPR' and cdc.node_type(argument.fields) = 'numeric[]'::regtype
            or p.proname in ('scale', 'numeric_out', 'numeric_send')
        )
        -- round(x, 2), trunc(x, 2), x::numeric(12, 2): all have that many digits.
        and not (argument.type = 'FUNCEXPR' and argument.fields ->> 'funcid' in ('1707', '1709', '1703'))
$$;
