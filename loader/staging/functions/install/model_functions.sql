-- The functions that a model needs: those of its query, and of the former one that goes on until the new one's
-- baseline.
create or replace function cdc.model_functions(slot text, model text) returns text[]
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select array_agg(made.name)
    from cdc.installed_model as installed
    cross join lateral (
        values (installed.routine), (installed.former ->> 'routine')
    ) as routines (routine)
    cross join lateral (
        values
        (routines.routine),
        (
            regexp_replace(routines.routine, '__apply_([0-9a-f]{8}"?)\(.*', '__deltas_\1')
            || '(cdc.change[], integer[], integer[])'
        )
    ) as made (name)
    where installed.slot_name = slot and installed.model_name = model and routines.routine is not null
$$;
