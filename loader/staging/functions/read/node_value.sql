-- What a part of a parse tree says, wherever it stands: two that are equal give the same value.
create or replace function cdc.node_value(nodes cdc.tree_node[], node_path text) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select jsonb_agg(
        jsonb_build_array(substr(part.path, length(node_path) + 1), part.type, part.fields - 'location') order by part.path
    )
    from unnest(nodes) as part
    where part.path = node_path or starts_with(part.path, node_path || '.')
$$;
