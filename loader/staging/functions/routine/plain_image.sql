-- An image of a message that is JSON, in the form in which the plugin itself prints it.
create or replace function cdc.plain_image(image jsonb) returns text
language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    select '[' || string_agg(
        format('{"name":%s,"value":%s}', entry.value -> 'name', entry.value -> 'value'), ',' order by entry.ordinal
    ) || ']'
    from jsonb_array_elements(case jsonb_typeof(image) when 'array' then image else '[]' end) with ordinality as entry (value, ordinal)
$$;
