-- What stands in the list beside GROUP BY and sees more than a group has: a function that makes several rows of one,
-- and an expression that could tell apart values which are equal, as 1.5 and 1.50 are. A group has one of these.
-- `loose` are the ordinals of the values that may be equal and look otherwise.
create or replace function cdc.judge_keys(nodes cdc.tree_node[], top_path text, loose integer[])
returns table (reason text, remedy text, path text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    with recursive targets as (
        select
            node.path,
            substring(node.path from '[0-9]+$')::integer = any (loose) as is_loose,
            node.fields ->> 'ressortgroupref' in (
                select clause.fields ->> 'tleSortGroupRef' from unnest(nodes) as clause
                where clause.parent = top_path and clause.path ~ '\.groupClause\.[0-9]+$'
            ) as is_grouped,
            exists (select from unnest(nodes) as part where part.type = 'AGGREF' and starts_with(part.path, node.path || '.')) as has_aggregate
        from unnest(nodes) as node
        where node.type = 'TARGETENTRY' and node.parent = top_path and node.path ~ '\.targetList\.[0-9]+$'
    ),

    -- Where a key stands in an expression that is none, but for aggregates.
    uses as (
        select key.path as key_path, key.is_loose, part.path, part.parent
        from targets as key
        inner join unnest(nodes) as own on own.path = key.path || '.expr'
        inner join targets on not targets.is_grouped and (targets.has_aggregate or key.is_grouped)
        inner join unnest(nodes) as part on part.type = own.type
        where
            not key.has_aggregate
            -- A value is as long to make as the query, so it is for few.
            and case when starts_with(part.path, targets.path || '.') then cdc.node_value(nodes, part.path) = cdc.node_value(nodes, own.path) end
            and not exists (
                select from unnest(nodes) as total where total.type = 'AGGREF' and starts_with(part.path, total.path || '.')
            )
    ),

    -- One that may look otherwise, and what it is a part of and may for the same reason.
    seen as (
        select uses.path, uses.parent
        from uses
        where uses.is_loose and not exists (select from uses as around where starts_with(uses.path, around.path || '.'))
        union
        select around.path, around.parent
        from seen
        inner join unnest(nodes) as around on around.path = seen.parent and cdc.keeps_equal(around, seen.path) = 'equal'
    )

    select
        'a set-returning function in the list beside GROUP BY, which makes rows of groups'::text,
        'the values unfolded in FROM: `cross join unnest(o.tags) as tag`',
        part.path
    from targets
    inner join unnest(nodes) as part
        on starts_with(part.path, targets.path || '.') and 'true' in (part.fields ->> 'funcretset', part.fields ->> 'opretset')
    where
        not targets.is_grouped and part.queries[cardinality(part.queries)] = top_path
        and exists (select from targets as one where one.is_grouped or one.has_aggregate)
        and not exists (select from uses where part.path = uses.path or starts_with(part.path, uses.path || '.'))
    union
    select
        'an expression that could tell equal values of a group apart (1.5 and 1.50), of which it has one',
        'the expression in GROUP BY too',
        seen.path
    from seen
    inner join unnest(nodes) as around on around.path = seen.parent
    where cdc.keeps_equal(around, seen.path) is null
    union
    select
        'a sub-select over a grouped value that could tell equal ones apart', 'the sub-select in GROUP BY too', part.path
    from targets
    inner join unnest(nodes) as part on part.type = 'SUBLINK' and starts_with(part.path, targets.path || '.')
    where not targets.is_grouped and not targets.has_aggregate and exists (select from targets as key where key.is_loose and key.is_grouped);
end
$$;
