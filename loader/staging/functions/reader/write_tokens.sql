-- SQL: what follows each column's name, up to the next one, in the first of the images that has it; see write_reader.
create or replace function cdc.write_tokens(columns jsonb, images text[]) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(string_agg(
        case when cardinality(images) = 1 then searched.first else format('coalesce(%s, %s)', searched.first, searched.second) end,
        e',\n                    ' order by one.place
    ), '')
    from jsonb_array_elements_text(columns) with ordinality as one (name, place)
    cross join lateral (
        select
            format('nullif(split_part(split_part(%s_image, %L, 2), '',{"name":'', 1), '''')', images[1], format('{"name":%s,"value":', to_json(one.name))) as first,
            format('nullif(split_part(split_part(%s_image, %L, 2), '',{"name":'', 1), '''')', images[2], format('{"name":%s,"value":', to_json(one.name))) as second
    ) as searched
$$;
