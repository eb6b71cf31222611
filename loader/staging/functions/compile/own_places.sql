-- A model's sources and values as it numbers them itself, in the place of a reader's numbers: see installed_model.
create or replace function cdc.own_places(compiled jsonb, out table_nos integer[], out places integer[])
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select
        array_agg(need.place::integer order by need.place),
        array_agg(own.places order by need.place) filter (where own.places <> '{}')
    from jsonb_array_elements(cdc.list_needs(compiled)) with ordinality as need (value, place)
    cross join lateral (
        select array(
            select case when name.value <> 'null' then name.place::integer end
            from jsonb_array_elements(need.value -> 1) with ordinality as name (value, place)
            order by name.place
        ) as places
    ) as own
$$;
