-- Give the value back, or fail where a function is another one by now than the one that find_installed has judged. It
-- wraps the first argument of the call itself: arguments are evaluated after the server has chosen what to call.
create or replace function cdc.unless_replaced(value text, routine oid, version xid) returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (select from pg_proc as p where p.oid = routine and p.xmin = version) then
        raise exception 'dbt has installed it again meanwhile' using errcode = 'WL001';
    end if;
    return value;
end
$$;
