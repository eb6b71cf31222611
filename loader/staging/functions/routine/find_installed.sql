-- A function that dbt has installed. It runs with the rights of dbt's role: one that would run with ours is
-- refused, and one that takes or gives other types, whose casts would run with ours.
create or replace function cdc.find_installed(
    routine text, takes text, gives text[], out name text, out oid oid, out version xid
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    -- Where this transaction has locked all that it reads, nothing told the session of what was committed since:
    -- it would run a routine as it was before dbt replaced it. To open a table that nothing else here opens does.
    perform pg_relation_size('pg_catalog.pg_largeobject');
    -- What is run is the name as the catalog has it: to_regprocedure takes an unquoted `x;drop` for one name.
    select p.oid, p.xmin, format('%s.%I', p.pronamespace::regnamespace, p.proname)
    into find_installed.oid, find_installed.version, find_installed.name
    from pg_proc as p
    where
        p.oid = to_regprocedure(regexp_replace(routine, '\([^()]*\)$', '') || takes)
        and p.prosecdef
        and not p.proretset
        and coalesce((p.proallargtypes::oid[])[p.pronargs + 1:], array[p.prorettype]) = gives::regtype[]::oid[];
    if not found then
        raise exception 'the function % is not there, not SECURITY DEFINER or not as dbt makes it', routine
            using hint = '`dbt build`';
    end if;
end
$$;
