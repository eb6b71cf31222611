-- A compiled roll-up with the type of the values that each count(distinct), min() and max() is of: `value_type`. Rows
-- are no values: those that differ are counted anew, in brackets, by which nothing takes it for what is added to.
create or replace function cdc.value_types(compiled jsonb) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    ordinal integer;
    type_name text;
begin
    for ordinal in
        select one.ordinal - 1 from jsonb_array_elements(compiled -> 'state_columns') with ordinality as one (value, ordinal)
        where one.value ->> 'again' ~ '^(count\(DISTINCT|min\(|max\()'
    loop
        begin
            execute format('create temporary view waltally_value as %s', cdc.write_group(
                compiled, (cdc.split_call(compiled -> 'state_columns' -> ordinal ->> 'again')).arguments || ' as value', null, '{}',
                'select ' || cdc.write_names(compiled #> '{inputs,0,columns}', 'null::%2$s as %1$I')
            ));
            select cdc.plain_type(a.atttypid) into type_name
            from pg_attribute as a where a.attrelid = to_regclass('pg_temp.waltally_value') and a.attnum = 1;
            drop view pg_temp.waltally_value;
            compiled := jsonb_set(compiled, array['state_columns', ordinal::text, 'value_type'], to_jsonb(type_name));
        exception
            when invalid_table_definition then
                compiled := jsonb_set(compiled, array['state_columns', ordinal::text, 'again'], to_jsonb(format('(%s)', compiled #>> array['state_columns', ordinal::text, 'again'])));
        end;
    end loop;
    return compiled;
end
$$;
