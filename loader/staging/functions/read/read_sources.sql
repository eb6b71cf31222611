-- A query as read_query gives it over stubs of its sources, which stay; its columns as over sources whose types have
-- their lengths. The stubs that stay have none: a source may widen a length, and a query casts to it as it did.
create or replace function cdc.read_sources(
    named text, sources jsonb, out printed text, out tree text, out columns jsonb, out collations jsonb
)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    read record;
begin
    if sources @? '$[*].columns[*].exact' then
        perform cdc.stub_sources(sources, true);
        columns := (cdc.read_query(named)).columns;
        perform cdc.drop_stubs(sources);
    end if;
    perform cdc.stub_sources(sources, false);
    read := cdc.read_query(named, numbered => sources);
    printed := read.printed;
    tree := read.tree;
    columns := coalesce(columns, read.columns);
    collations := read.collations;
end
$$;
