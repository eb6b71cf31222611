-- The value, an argument of a function that was found: whoever replaces that function meanwhile would have
-- another one run. Arguments are evaluated after the server has chosen what to call.
create or replace function cdc.unless_replaced(value text, routine oid, version xid) returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (select from pg_proc as p where p.oid = routine and p.xmin = version) then
        raise exception 'dbt has installed it again meanwhile' using errcode = 'WL001';
    end if;
    return value;
end
$$;
