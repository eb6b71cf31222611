-- Values of types that not every server reads alike, or that name things of the server, and casts by which they come
-- from texts or become some that settings decide on. A model over models compares by operators that PostgreSQL looks up
-- by their names: by none of an extension's.
create or replace function cdc.judge_types(nodes cdc.tree_node[], is_dependent boolean)
returns table (reason text, remedy text, path text)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select
        'a value of a type that is not built in', 'the column as `column::text`', node.path
    from unnest(nodes) as node
    left join unnest(nodes) as parent on parent.path = node.parent
    inner join pg_type as t on t.oid = cdc.node_type(node.fields)
    where
        (
            t.oid = 'cdc.other_value'::regtype
            or is_dependent and node.type = 'VAR' and cdc.is_of_extension('pg_type', coalesce(nullif(t.typelem, 0), t.oid))
        )
        and not (
            parent.type in ('COERCEVIAIO', 'RELABELTYPE', 'NULLTEST')
            -- Handed up by a join, a CTE or a sub-select.
            or node.path ~ '\.joinaliasvars\.[0-9]+$'
            or parent.type = 'TARGETENTRY' and parent.path ~ '\.(subquery|ctequery)\.targetList\.[0-9]+$'
            or parent.type = 'TARGETENTRY' and parent.parent in (
                select counted.path from unnest(nodes) as counted
                where counted.type = 'AGGREF' and counted.fields ->> 'aggfnoid' = '2147'
            )
        )
    union
    select
        format('%s, a type that is money, names things of the server or is not built in', format_type(own.type_oid, null)),
        case
            when own.type = 'CONST' and t.typname ~ '^_?reg'
                then 'what needs it in a view over a rows model, or in the query that reads that'
            else 'the column as `column::text`'
        end,
        own.path
    from (
        select node.path, node.type, cdc.node_type(node.fields) as type_oid from unnest(nodes) as node
    ) as own
    inner join pg_type as t on t.oid = own.type_oid
    where
        t.oid <> 'cdc.other_value'::regtype
        and (
            t.typname ~ '^_?(money|reg.*)$'
            or t.typnamespace <> 'pg_catalog'::regnamespace
            and not cdc.is_of_extension('pg_type', coalesce(nullif(t.typelem, 0), t.oid))
            and not exists (
                select from pg_type as stub
                where stub.oid in (t.oid, t.typelem) and stub.typtype = 'e' and stub.typnamespace = pg_my_temp_schema()
            )
        )
    union
    select
        'a comparison of an extension''s type whose operator PostgreSQL looks up by its name',
        '`=` in place of IS DISTINCT FROM, NULLIF, USING or CASE x WHEN y', node.path
    from unnest(nodes) as node
    left join unnest(nodes) as own on own.path = node.parent
    inner join pg_operator as o
        on o.oprnamespace <> 'pg_catalog'::regnamespace and o.oid = coalesce(node.fields ->> 'opno', own.fields ->> 'opno')::oid
    where
        node.type in ('DISTINCTEXPR', 'NULLIFEXPR', 'CASETESTEXPR')
        or node.path ~ '\.quals(\.args\.[0-9]+)?$' and exists (
            select from unnest(nodes) as joined
            where joined.type = 'JOINEXPR' and starts_with(node.path, joined.path || '.quals') and not joined.fields ? 'usingClause'
        )
    union
    select
        format('a text cast to %s can say `today`, or be read in several ways', format_type(cdc.node_type(node.fields), null)),
        'to_date() or to_timestamp() with a format', node.path
    from unnest(nodes) as node
    where
        node.type = 'COERCEVIAIO'
        and not cdc.has_plain_text(cdc.node_type(node.fields), is_input => true)
        and cdc.node_type(node.fields) <> 'cdc.other_value'::regtype
    union
    select
        format('the spelling of a %s depends on settings', format_type(cdc.node_type(argument.fields), null)),
        'to_char() with a constant format, `at time zone` before it for a timestamptz', node.path
    from unnest(nodes) as node
    inner join unnest(nodes) as argument on argument.path = node.path || '.arg'
    where node.type = 'COERCEVIAIO' and not cdc.has_plain_text(cdc.node_type(argument.fields))
$$;
