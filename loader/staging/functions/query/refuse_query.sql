-- Refuse a query for all that is wrong with it at once: each reason and each remedy a line. `input_count` is how
-- often a query over models names one; null of one over sources.
create or replace function cdc.refuse_query(
    query text, tree text, nodes cdc.tree_node[], top_path text, is_total boolean, has_zone boolean, input_count integer
) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    refused record;
begin
    select
        string_agg(found.reason || '.', e'\n' order by found.reason) as reasons,
        string_agg('Instead: ' || found.remedy || '.', e'\n' order by found.reason) as remedies
    into refused
    from (
        select * from cdc.judge_nodes(nodes)
        union
        select * from cdc.judge_from(nodes)
        union
        select * from cdc.judge_calls(nodes, has_zone)
        union
        select * from cdc.judge_order(nodes)
        union
        select * from cdc.judge_constants(query, tree, nodes, has_zone)
        union
        select * from cdc.judge_levels(nodes, top_path)
        union
        select * from cdc.judge_aggregates(nodes, top_path, input_count)
        union
        select * from cdc.judge_totals(nodes, top_path, is_total)
    ) as found;
    if refused.reasons is not null then
        raise exception '%', refused.reasons using errcode = 'WL003', hint = refused.remedies;
    end if;
end
$$;
