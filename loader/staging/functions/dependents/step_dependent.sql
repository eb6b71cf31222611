-- A step of the routine of a model over models for which nothing changed: fill, or prune.
create or replace function cdc.step_dependent(routine text, step text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    target constant record := cdc.find_installed(
        routine, '(text, text, anyarray, anyarray, anycompatiblearray)', array['anycompatiblearray', 'anycompatiblearray']
    );
begin
    execute format('select from %s(cdc.unless_replaced($1, $2, $3), null, null::text[], null, null::text[])', target.name)
    using step, target.oid, target.version;
end
$$;
