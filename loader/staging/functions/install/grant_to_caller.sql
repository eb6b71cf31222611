-- Let the owner of apply, and nobody else, execute functions that dbt has made.
create or replace function cdc.grant_to_caller(functions text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    caller constant regrole := (
        select p.proowner from pg_proc as p where p.oid = 'cdc.apply(text, text)'::regprocedure
    );
    function regprocedure;
    place regnamespace;
begin
    foreach function in array functions::regprocedure[] loop
        select p.pronamespace into place from pg_proc as p where p.oid = function;
        execute format('revoke execute on function %s from public', function);
        execute format('grant execute on function %s to %s', function, caller);
        if not has_schema_privilege(caller, place, 'usage') then
            execute format('grant usage on schema %s to %s', place, caller);
        end if;
    end loop;
end
$$;
