-- The type of the value that a node of a parse tree gives.
create or replace function cdc.node_type(fields jsonb) returns oid
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(
        fields ->> 'vartype', fields ->> 'consttype', fields ->> 'funcresulttype', fields ->> 'opresulttype',
        fields ->> 'aggtype', fields ->> 'resulttype', fields ->> 'casetype', fields ->> 'coalescetype',
        fields ->> 'minmaxtype', fields ->> 'array_typeid', fields ->> 'refrestype', fields ->> 'typeId',
        fields ->> 'row_typeid', fields ->> 'paramtype', '0'
    )::oid
$$;
