-- The part of compile_query for a query without an aggregate: rows of a table, kept by its primary key.
create or replace function cdc.compile_rows(printed text, columns jsonb, tree jsonb, nodes cdc.tree_node[], sources jsonb) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'A query without an aggregate is not kept yet.' using errcode = 'WL003';
end
$$;
