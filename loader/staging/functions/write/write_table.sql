-- SQL: a model's table, with its key.
create or replace function cdc.write_table(compiled jsonb, relation text, key_name text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format(
        e'create table %s (\n    %s\n) with (fillfactor = 80);\n',
        relation,
        (
            select string_agg(
                format('%I %s', definition.name, definition.sql),
                e',\n    ' order by definition.ordinal
            )
            from cdc.column_definitions(compiled) as definition
        )
    ) || cdc.write_key(compiled, relation, key_name)
$$;
