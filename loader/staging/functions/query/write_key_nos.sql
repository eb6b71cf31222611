-- SQL: the places of a rows model's key in an image, as the routine's fifth argument has them.
create or replace function cdc.write_key_nos(compiled jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format('array[%s]', string_agg(format('($5)[1][%s]', needed.place), ', ' order by own.place))
    from jsonb_array_elements_text(compiled -> 'identity') with ordinality as own (name, place)
    inner join jsonb_path_query(compiled, '$.sources[0].columns[*] ? (@.is_needed == true).name') with ordinality as needed (name, place)
        on needed.name #>> '{}' = own.name
$$;
