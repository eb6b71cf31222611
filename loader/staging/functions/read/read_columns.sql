-- The columns of tables that a query reads: by the oid and the attribute number, whether something depends on its
-- value. One that is only handed up, as `select *` in a CTE does, and that nobody reads there is not needed.
create or replace function cdc.read_columns(nodes cdc.tree_node[])
returns table (relation oid, column_number integer, is_needed boolean)
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    -- What a variable stands for: a column of a table, or another container.
    with recursive reads as (
        select distinct container, relation, column_number, target from cdc.read_variables(nodes)
        union all
        -- A column of a UNION is that column of each arm.
        select
            entry.path,
            null,
            null,
            arm.path || '.subquery.targetList.' || substring(entry.path from '[0-9]+$')
        from unnest(nodes) as entry
        inner join unnest(nodes) as arm on arm.parent = entry.parent and arm.type = 'RANGETBLENTRY' and arm.fields ->> 'rtekind' = '1'
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
        reads.column_number,
        bool_or(exists (select from live where live.container = reads.container))
    from reads
    where reads.relation <> 0
    group by 1, 2;
end
$$;
