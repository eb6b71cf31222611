-- The columns of a query's result as read_query gives them, where its sources have types with their lengths. The tables
-- of stub_sources that it leaves have none: a source may widen a length, and a query casts to it as it did.
create or replace function cdc.exact_columns(named text, sources jsonb) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    read record;
begin
    perform cdc.stub_sources(sources, true);
    read := cdc.read_query(named);
    perform cdc.drop_stubs(sources);
    perform cdc.stub_sources(sources, false);
    return read.columns;
end
$$;
