-- What a query over sources is, as PostgreSQL understands it: its kind, what it needs of each source, and what its
-- table has. Of a fact `query` gives the keys and what is kept of them, to be added up; a column that is an
-- expression of totals is derived from these.
--
-- sources  [{"relation": as the query names it, "name": the table's own, "table": "schema.table", "key": ["id"],
--          "is_key_deferrable", "has_old_rows": whether its replica identity carries every column,
--          "columns": [{"name", "type": as format_type gives it, or other, "labels": of an enum}]}]
-- options  {"timezone", "unique_key": [], "ignore_deletes": ["schema.table"], "surrogate_key"}
--
-- A query that cannot be kept is refused: WL003, with a reason and a remedy a line. What PostgreSQL refuses has its
-- error.
create or replace function cdc.compile_query(query text, sources jsonb, options jsonb default '{}') returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
set row_security from current
set standard_conforming_strings from current
set transform_null_equals from current
set DateStyle from current
set IntervalStyle from current
set TimeZone from current
as $$
declare
    read record;
    tree jsonb;
    nodes cdc.tree_node[];
    unwrapped record;
    top_path text;
    compiled jsonb;
    refused record;
begin
    if options ? 'timezone' then
        perform set_config('timezone', options ->> 'timezone', true);
    end if;
    -- dbt and its manifest name them in other orders.
    sources := (select jsonb_agg(value order by value ->> 'table' collate "C") from jsonb_array_elements(sources));
    perform cdc.stub_sources(sources);
    read := cdc.read_query(query, sources);
    tree := cdc.parse_tree(read.tree) -> 0;
    nodes := array(select node from cdc.tree_nodes(tree) as node);
    unwrapped := cdc.unwrap_query(tree);
    top_path := cdc.find_top(nodes, unwrapped.steps);
    select
        string_agg(found.reason || '.', e'\n' order by found.reason) as reasons,
        string_agg('Instead: ' || found.remedy || '.', e'\n' order by found.reason) as remedies
    into refused
    from (
        select * from cdc.judge_nodes(nodes)
        union
        select * from cdc.judge_from(nodes)
        union
        select * from cdc.judge_calls(nodes, options ? 'timezone')
        union
        select * from cdc.judge_order(nodes)
        union
        select * from cdc.judge_constants(query, sources, read.tree, nodes, options ? 'timezone')
        union
        select * from cdc.judge_levels(nodes, top_path)
        union
        select * from cdc.judge_totals(nodes, top_path, unwrapped.inner_tree -> 'groupClause' = 'null')
    ) as found;
    if refused.reasons is not null then
        raise exception '%', refused.reasons using errcode = 'WL003', hint = refused.remedies;
    end if;
    if cdc.source_width(tree) = 0 then
        raise exception 'The query reads no source.' using errcode = 'WL003', hint = 'Name a table by source().';
    end if;

    compiled := jsonb_build_object(
        'sources', cdc.needed_sources(sources, nodes, options),
        'timezone', coalesce(options ->> 'timezone', 'UTC')
    ) || case
        when (unwrapped.inner_tree ->> 'hasAggs')::boolean or unwrapped.inner_tree -> 'groupClause' <> 'null'
            then cdc.compile_fact(read.printed, read.columns, unwrapped.inner_tree, unwrapped.steps, unwrapped.names, unwrapped.numbers)
        else cdc.compile_rows(read.printed, read.columns, nodes, sources, options)
    end;
    compiled := cdc.complete_model(compiled, options);
    perform cdc.drop_stubs(sources);
    return compiled;
end
$$;
