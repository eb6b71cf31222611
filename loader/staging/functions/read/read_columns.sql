-- The columns of tables that a query reads: by the oid and the attribute number, whether something depends on its
-- value. One that is only handed up, as `select *` in a CTE does, and that nobody reads there is not needed.
create or replace function cdc.read_columns(nodes cdc.tree_node[])
returns table (relation oid, column_number integer, is_needed boolean)
language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    with recursive variables as (
        select distinct
            node.container,
            node.queries[cardinality(node.queries) - (node.fields ->> 'varlevelsup')::integer] as query,
            (node.fields ->> 'varno')::integer as table_no,
            (node.fields ->> 'varattno')::integer as column_no
        from unnest(nodes) as node
        where node.type = 'VAR'
    ),

    entries as (
        select
            node.parent as query,
            substring(node.path from '[0-9]+$')::integer as table_no,
            node.path,
            node.queries,
            node.fields
        from unnest(nodes) as node
        where node.type = 'RANGETBLENTRY'
    ),

    -- What a variable stands for: a column of a table, or another container.
    reads as (
        select
            variables.container,
            (entries.fields ->> 'relid')::oid as relation,
            variables.column_no,
            case entries.fields ->> 'rtekind'
                when '1' then entries.path || '.subquery.targetList.' || variables.column_no::text
                when '2' then entries.path || '.joinaliasvars.' || variables.column_no::text
                when '6' then named.path || '.ctequery.targetList.' || variables.column_no::text
                else entries.path || '.groupexprs.' || variables.column_no::text
            end as target
        from variables
        inner join entries on entries.query = variables.query and entries.table_no = variables.table_no
        left join unnest(nodes) as named
            on
                named.type = 'COMMONTABLEEXPR'
                and named.fields ->> 'ctename' = entries.fields ->> 'ctename'
                and named.parent = entries.queries[
                    cardinality(entries.queries) - (entries.fields ->> 'ctelevelsup')::integer
                ]
        union all
        -- A column of a UNION is that column of each arm.
        select
            entry.path,
            null,
            null,
            arm.path || '.subquery.targetList.' || substring(entry.path from '[0-9]+$')
        from unnest(nodes) as entry
        inner join entries as arm on arm.query = entry.parent and arm.fields ->> 'rtekind' = '1'
        where
            entry.type = 'TARGETENTRY'
            and exists (
                select from unnest(nodes) as operation
                where operation.type = 'SETOPERATIONSTMT' and operation.path = entry.parent || '.setOperations'
            )
    ),

    materialized as (
        select node.path from unnest(nodes) as node
        where
            node.type = 'COMMONTABLEEXPR' and node.fields ->> 'ctematerialized' <> '2'
            and (node.fields ->> 'ctematerialized' = '1' or node.fields ->> 'cterefcount' <> '1')
    ),

    live as (
        select node.path as container
        from unnest(nodes) as node
        where
            node.type = 'QUERY'
            or (
                node.type = 'TARGETENTRY'
                and node.path ~ '\.targetList\.[0-9]+$'
                and (
                    node.parent = 'q'
                    or node.parent !~ '\.(subquery|ctequery)$'
                    or node.fields ->> 'ressortgroupref' <> '0'
                    -- How many rows there are depends on it, or it is computed and may fail.
                    or node.path in (
                        select part.container from unnest(nodes) as part
                        where 'true' in (part.fields ->> 'funcretset', part.fields ->> 'opretset')
                    )
                    or node.parent in (select materialized.path || '.ctequery' from materialized)
                    and node.path || '.expr' not in (select plain.path from unnest(nodes) as plain where plain.type = 'VAR')
                )
            )
        union
        select reads.target
        from live
        inner join reads on reads.container = live.container
        where reads.target is not null
    )

    select
        reads.relation,
        reads.column_no,
        bool_or(exists (select from live where live.container = reads.container))
    from reads
    where reads.relation <> 0
    group by 1, 2
$$;
