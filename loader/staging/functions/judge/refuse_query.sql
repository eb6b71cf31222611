-- Refuse a query for all that is wrong with it. `inputs` are what it reads.
create or replace function cdc.refuse_query(
    query text, tree text, nodes cdc.tree_node[], top_path text, is_total boolean, loose integer[],
    has_zone boolean, inputs jsonb
) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    select cdc.refuse(nodes, array_agg(found.reason), array_agg(found.remedy), array_agg(found.path))
    from (
        select * from cdc.judge_nodes(nodes, (select core.path from cdc.find_core(nodes, inputs) as core))
        union
        select
            'an order that leaves open which row comes first',
            format('`%s` last in ORDER BY', array_to_string(grouped.lacking, '`, `')),
            grouped.lacking_path
        from cdc.find_group(nodes, inputs) as grouped
        where grouped.lacking <> '{}'
        union
        select part.*, null from cdc.judge_from(nodes) as part
        union
        select * from cdc.judge_calls(nodes, has_zone)
        union
        select * from cdc.judge_types(nodes, inputs @? '$[*].model')
        union
        select * from cdc.judge_order(nodes)
        union
        select part.*, null from cdc.judge_constants(query, tree, nodes, has_zone) as part
        union
        select * from cdc.judge_levels(nodes, top_path)
        union
        select * from cdc.judge_aggregates(nodes, top_path, case when inputs -> 0 ? 'model' then inputs end)
        union
        select * from cdc.judge_totals(nodes, top_path, is_total)
        union
        select * from cdc.judge_keys(nodes, top_path, loose)
    ) as found;
$$;
