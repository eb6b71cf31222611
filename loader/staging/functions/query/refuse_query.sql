-- Refuse a query with an aggregate for all that is wrong with it. `input_count` is how often a query over models
-- names one; null of one over sources.
create or replace function cdc.refuse_query(
    query text, tree text, nodes cdc.tree_node[], top_path text, is_total boolean, has_zone boolean, input_count integer
) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    select cdc.refuse(nodes, array_agg(found.reason), array_agg(found.remedy), array_agg(found.path))
    from (
        select * from cdc.judge_nodes(nodes)
        union
        select part.*, null from cdc.judge_from(nodes) as part
        union
        select * from cdc.judge_calls(nodes, has_zone)
        union
        select * from cdc.judge_types(nodes)
        union
        select * from cdc.judge_order(nodes)
        union
        select part.*, null from cdc.judge_constants(query, tree, nodes, has_zone) as part
        union
        select * from cdc.judge_levels(nodes, top_path)
        union
        select * from cdc.judge_aggregates(nodes, top_path, input_count)
        union
        select * from cdc.judge_totals(nodes, top_path, is_total)
    ) as found;
$$;
