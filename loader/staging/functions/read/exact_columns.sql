-- The columns of a query's result as read_query gives them, where its sources have types with their lengths. The tables
-- of stub_sources that it leaves have none: a source may widen a length, and a query casts to it as it did.
-- Null where no source has a length.
create or replace function cdc.exact_columns(named text, sources jsonb) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    exact jsonb;
begin
    if sources @? '$[*].columns[*].exact' then
        perform cdc.stub_sources(sources, true);
        exact := (cdc.read_query(named)).columns;
        perform cdc.drop_stubs(sources);
    end if;
    perform cdc.stub_sources(sources, false);
    return exact;
end
$$;
