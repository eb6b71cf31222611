-- No rows of a model, as its routine takes them: an empty array where a dependent takes what it changes,
-- else null. The routine gives what it changed in the same type. The model lies in the routine's schema.
create or replace function cdc.no_changed_rows(model text, routine oid) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select
            case when cdc.has_dependents(model) then 'array[]::' else 'null::' end
            || case when to_regclass(own.relation) is null then 'text' else own.relation end || '[]'
        from pg_proc as p
        inner join pg_namespace as n on n.oid = p.pronamespace
        cross join lateral (select format('%I.%I', n.nspname, substr(model, length(n.nspname) + 2)) as relation) as own
        where p.oid = routine
    );
end
$$;
