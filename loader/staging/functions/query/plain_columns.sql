-- The columns of a query that are a table's columns as they are, however many CTEs, sub-selects and joins hand them up: by
-- their place, the table's oid and the attribute number.
create or replace function cdc.plain_columns(nodes cdc.tree_node[])
returns table (place integer, relation oid, column_number integer)
language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    with recursive followed as (
        select
            substring(node.path from '[0-9]+$')::integer as place,
            node.path || '.expr' as path,
            null::oid as relation,
            null::integer as column_number
        from unnest(nodes) as node
        where node.type = 'TARGETENTRY' and node.parent = 'q' and node.fields ->> 'resjunk' = 'false'
        union all
        select
            followed.place,
            case entry.fields ->> 'rtekind'
                when '1' then entry.path || '.subquery.targetList.' || (variable.fields ->> 'varattno') || '.expr'
                when '2' then entry.path || '.joinaliasvars.' || (variable.fields ->> 'varattno')
                when '6' then (
                    select named.path || '.ctequery.targetList.' || (variable.fields ->> 'varattno') || '.expr'
                    from unnest(nodes) as named
                    where
                        named.type = 'COMMONTABLEEXPR'
                        and named.fields ->> 'ctename' = entry.fields ->> 'ctename'
                        and named.parent = entry.queries[cardinality(entry.queries) - (entry.fields ->> 'ctelevelsup')::integer]
                )
            end,
            (entry.fields ->> 'relid')::oid,
            (variable.fields ->> 'varattno')::integer
        from followed
        inner join unnest(nodes) as variable on variable.path = followed.path and variable.type = 'VAR'
        inner join unnest(nodes) as entry
            on
                entry.type = 'RANGETBLENTRY'
                and entry.path = variable.queries[cardinality(variable.queries) - (variable.fields ->> 'varlevelsup')::integer]
                    || '.rtable.' || (variable.fields ->> 'varno')
    )

    select followed.place, followed.relation, followed.column_number
    from followed
    where followed.relation <> 0 and followed.path is null
$$;
