-- Whether a column of a model is not added up, but computed again for a group.
create or replace function cdc.is_anew(compiled jsonb, name text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from jsonb_array_elements(compiled -> 'state_columns') as state
        where state ->> 'name' = is_anew.name and state ->> 'again' !~ '^count\(DISTINCT\s'
    )
$$;
