-- SQL: a call of reshape_table for a model's table. A text goes over its lines, so no other indents it: see indent.
create or replace function cdc.write_reshape(compiled jsonb, relation text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format(
        e'perform cdc.reshape_table(\n            %L,\n            %L,\n            %L\n        );',
        relation,
        (
            select cdc.indent(format('[%s]', cdc.join_lines(array_agg(jsonb_build_array(name, sql)::text order by ordinal))), '            ')
            from cdc.column_definitions(compiled)
        ),
        format('{"kind": "%s", "keys": [%s]}', compiled ->> 'kind', (
            select cdc.indent(cdc.join_lines(array_agg(jsonb_build_object('name', value -> 'name', 'type', value -> 'type')::text order by ordinal)), '            ')
            from jsonb_array_elements(compiled -> 'keys') with ordinality as one (value, ordinal)
        ))
    )
$$;
