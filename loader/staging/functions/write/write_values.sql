-- SQL: the texts of the values at the beginning of the tokens of an image; see write_reader.
create or replace function cdc.write_values(columns jsonb, image text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(string_agg(format(
        -- A string begins with a quote, 34; null with an n, 110.
        'case ascii(%1$s) when 34 then case when strpos(%1$s, ''\'') = 0 then split_part(%1$s, ''"'', 2) '
        'else cdc.json_string(%1$s) end when 110 then null else split_part(%1$s, ''}'', 1) end',
        format('%s_tokens[%s]', image, one.ordinal)
    ), e',\n' order by one.ordinal), '')
    from jsonb_array_elements(columns) with ordinality as one (value, ordinal)
$$;
