-- The select of a query over one model that does more with a group of rows than to aggregate it, where no other one
-- does, nor aggregates: `kind` is having, distinct, first (DISTINCT ON) or window. No row for any other query.
create or replace function cdc.find_core(nodes cdc.tree_node[], inputs jsonb) returns table (path text, kind text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    with selects as (
        select
            node.path,
            node.fields ->> 'hasWindowFuncs' = 'true' as has_windows,
            node.fields ->> 'hasDistinctOn' = 'true' as has_first,
            node.fields ->> 'hasAggs' = 'true' or bool_or(part.path ~ '\.groupClause\.[0-9]+$') as has_groups,
            bool_or(part.path ~ '\.distinctClause\.[0-9]+$') as has_distinct,
            bool_or(part.path ~ '\.havingQual$') as has_having
        from unnest(nodes) as node
        inner join unnest(nodes) as part on part.parent = node.path
        where node.type = 'QUERY' and node.path !~ '\.subselect(\.|$)'
        group by node.path, node.fields
    ),

    cores as (
        select
            selects.path,
            case
                when has_windows and not (has_distinct or has_groups) then 'window'
                when has_first and not (has_windows or has_groups) then 'first'
                when has_distinct and not (has_windows or has_groups) then 'distinct'
                when has_having and not (has_windows or has_distinct) then 'having'
            end as kind,
            count(*) over () as core_count
        from selects
        where has_windows or has_distinct or has_groups
    )

    select cores.path, cores.kind
    from cores
    where jsonb_array_length(inputs) = 1 and inputs -> 0 ? 'model' and cores.core_count = 1 and cores.kind is not null;
end
$$;
