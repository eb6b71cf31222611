-- Whether a column of a model is not added up, but computed again for a group.
create or replace function cdc.is_anew(compiled jsonb, name text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from jsonb_array_elements(compiled -> 'kept') as kept
        where kept ->> 'name' = is_anew.name and kept ->> 'again' !~ '^count\(DISTINCT\s'
    )
$$;
