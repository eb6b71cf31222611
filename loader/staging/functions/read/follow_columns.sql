-- Which columns of tables the variables of a query stand for, however many CTEs, sub-selects and joins hand them up: by
-- the variable's path, the table's oid and the attribute number. One that a lateral sub-select hands up is a variable
-- of its own: its join may make it null.
create or replace function cdc.follow_columns(nodes cdc.tree_node[])
returns table (variable text, relation oid, column_number integer)
language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    with recursive followed as (
        select
            node.path as variable,
            node.path,
            null::oid as relation,
            null::integer as column_number
        from unnest(nodes) as node
        where node.type = 'VAR'
        union all
        select
            followed.variable,
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
        inner join unnest(nodes) as variable
            on
                variable.path = followed.path
                and variable.type = 'VAR'
                and (variable.path = followed.variable or variable.fields ->> 'varlevelsup' = '0')
        inner join unnest(nodes) as entry
            on
                entry.type = 'RANGETBLENTRY'
                and entry.path = variable.queries[cardinality(variable.queries) - (variable.fields ->> 'varlevelsup')::integer]
                    || '.rtable.' || (variable.fields ->> 'varno')
    )

    select followed.variable, followed.relation, followed.column_number
    from followed
    where followed.relation <> 0 and followed.path is null
$$;
