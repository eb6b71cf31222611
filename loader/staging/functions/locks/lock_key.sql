-- The number of an advisory lock: by its kind, and the names of what it is of. waltally/locks.py lists the kinds, and
-- computes the same number for Python, the macro lock_key for dbt. Not in the language sql: the server would plan its
-- query at each call.
create or replace function cdc.lock_key(kind text, variadic names text[]) returns bigint
language plpgsql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
begin
    return (
        'x' || left(md5(convert_to(array_to_string(array['waltally', kind] || names, e'\n'), 'UTF8')), 16)
    )::bit(64)::bigint;
end
$$;
