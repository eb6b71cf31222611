-- Mark the functions that dbt has made for a model, let the owner of apply, and nobody else, execute them, and drop
-- those that the model had before and needs no more. Runs with the rights of dbt's role, which owns them.
create or replace function cdc.adopt_functions(model text, functions text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    caller constant regrole := (
        select p.proowner from pg_proc as p where p.oid = 'cdc.apply(text, pg_lsn, text)'::regprocedure
    );
    function regprocedure;
    schema regnamespace;
begin
    foreach function in array functions::regprocedure[] loop
        select p.pronamespace into schema from pg_proc as p where p.oid = function;
        execute format('comment on function %s is %L', function, 'waltally calls it; dbt has made it');
        execute format('revoke execute on function %s from public', function);
        execute format('grant execute on function %s to %s', function, caller);
        if not has_schema_privilege(caller, schema, 'usage') then
            -- Of two builds that grant it at once the second would fail.
            perform pg_advisory_xact_lock(cdc.lock_key('dbt schema', n.nspname)) from pg_namespace as n where n.oid = schema;
            execute format('grant usage on schema %s to %s', schema, caller);
        end if;
    end loop;
    for function in
        select former.name::regprocedure from cdc.marked_object as former
        where
            former.relation = model
            and former.kind = 'function'
            and former.name::regprocedure <> all (functions::regprocedure[])
            and pg_has_role(former.owner, 'usage')
    loop
        execute format('drop function %s', function);
    end loop;
end
$$;
