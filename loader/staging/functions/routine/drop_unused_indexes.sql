-- Drop the indexes of ours on models of a schema that no model over models needs any more. One whose table somebody
-- reads stays until the next time: who waits for it would keep other readers out.
create or replace function cdc.drop_unused_indexes(model_schema text) returns void
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '100ms' as $$
declare
    unused record;
begin
    for unused in
        -- By its name: another session may drop it meanwhile.
        select n.nspname, c.relname
        from cdc.unneeded_indexes(model_schema) as own (index)
        inner join pg_class as c on c.oid = own.index
        inner join pg_namespace as n on n.oid = c.relnamespace
        where pg_has_role(c.relowner, 'usage')
    loop
        begin
            execute format('drop index if exists %I.%I', unused.nspname, unused.relname);
        exception
            when lock_not_available then null;
        end;
    end loop;
end
$$;
