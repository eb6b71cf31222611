-- SQL: a call of reshape_table for a model's table.
create or replace function cdc.write_reshape(compiled jsonb, relation text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format(
        'perform cdc.reshape_table(%L, %L, %L, %L, %L);',
        relation,
        (select jsonb_agg(jsonb_build_array(name, sql) order by place) from cdc.column_definitions(compiled)),
        array(
            select value ->> 'name' from jsonb_array_elements(compiled -> 'keys') with ordinality as one (value, place)
            order by place
        ),
        cdc.write_key(compiled, relation, 'waltally_key'),
        cdc.key_hash(compiled)
    )
$$;
