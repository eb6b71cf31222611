-- What each variable of a query stands for: the column of a table, by its oid and the attribute number, or what a CTE,
-- a sub-select or a join hands up, by the path of its entry there. `is_outer` is one of a query around its own.
create or replace function cdc.read_variables(nodes cdc.tree_node[])
returns table (path text, container text, is_outer boolean, relation oid, column_number integer, target text)
language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    with entries as materialized (
        select node.path, node.fields ->> 'rtekind' as kind, (node.fields ->> 'relid')::oid as relation, named.path as cte_path
        from unnest(nodes) as node
        left join unnest(nodes) as named
            on
                node.fields ->> 'rtekind' = '6'
                and named.type = 'COMMONTABLEEXPR'
                and named.fields ->> 'ctename' = node.fields ->> 'ctename'
                and named.parent = node.queries[cardinality(node.queries) - (node.fields ->> 'ctelevelsup')::integer]
        where node.type = 'RANGETBLENTRY'
    )

    select
        node.path,
        node.container,
        node.fields ->> 'varlevelsup' <> '0',
        entries.relation,
        (node.fields ->> 'varattno')::integer,
        case entries.kind
            when '1' then entries.path || '.subquery.targetList.'
            when '2' then entries.path || '.joinaliasvars.'
            when '6' then entries.cte_path || '.ctequery.targetList.'
            when '9' then entries.path || '.groupexprs.'
        end || (node.fields ->> 'varattno')
    from unnest(nodes) as node
    inner join entries
        on entries.path = node.queries[cardinality(node.queries) - (node.fields ->> 'varlevelsup')::integer] || '.rtable.' || (node.fields ->> 'varno')
    where node.type = 'VAR'
$$;
