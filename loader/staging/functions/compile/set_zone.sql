-- Let this transaction evaluate in a model's time zone. PostgreSQL would also take UTC+3, and as POSIX does for a zone
-- west of Greenwich: https://www.postgresql.org/docs/current/datetime-posix-timezone-specs.html
create or replace function cdc.set_zone(zone text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform set_config('timezone', zone, true);
    -- Any other name is one of a file, or refused.
    if zone ~ '\d' and not exists (select from pg_timezone_names as known where known.name = zone) then
        raise exception 'The time zone % is none of the server''s: by a sign it may mean the other side.', zone
            using errcode = 'WL003', hint = 'A name of `select name from pg_timezone_names`, such as Europe/London or UTC.';
    end if;
end
$$;
