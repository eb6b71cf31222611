-- Whether a slot's source is this database itself, so that the catalog says how its tables are.
create or replace function cdc.is_own(log cdc.slot_position) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return log.source_database = current_database() and log.system_identifier = (
        select own.system_identifier::text from pg_control_system() as own
    );
exception
    -- Managed servers may keep it from us.
    when insufficient_privilege then
        return false;
end
$$;
