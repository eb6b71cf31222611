-- SQL of write_comparison for a model's key: as the model has it, as the source gives it, as a text, and the grouping by it.
create or replace function cdc.compared_keys(compiled jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select jsonb_build_object(
        'own_keys', coalesce(string_agg(format('%I::%s as key_%s, ', value ->> 'name', typed, place), '' order by place), ''),
        'given_keys', coalesce(string_agg(format('given.dimensions[%s]::%s, ', place, typed), '' order by place), ''),
        'key_texts', coalesce(string_agg(format('key_%s::text', place), ', ' order by place), ''),
        'grouped', coalesce('group by ' || string_agg(format('key_%s', place), ', ' order by place), '')
    )
    from jsonb_array_elements(compiled -> 'keys') with ordinality as key (value, place)
    cross join lateral (
        select (value ->> 'type') || case value ->> 'type' when 'text' then ' collate "C"' else '' end as typed
    ) as own
$$;
