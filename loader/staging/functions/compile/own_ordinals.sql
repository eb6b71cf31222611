-- A model's sources and values as it numbers them itself, in the place of a reader's numbers: see installed_model.
create or replace function cdc.own_ordinals(compiled jsonb, out table_nos integer[], out ordinals integer[])
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select
        array_agg(need.ordinal::integer order by need.ordinal),
        array_agg(own.ordinals order by need.ordinal) filter (where own.ordinals <> '{}')
    from jsonb_array_elements(cdc.list_needs(compiled)) with ordinality as need (value, ordinal)
    cross join lateral (
        select array(
            select case when name.value <> 'null' then name.ordinal::integer end
            from jsonb_array_elements(need.value -> 1) with ordinality as name (value, ordinal)
            order by name.ordinal
        ) as ordinals
    ) as own
$$;
