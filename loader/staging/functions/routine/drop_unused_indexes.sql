-- Drop the indexes of ours on models of a schema that no model over models needs any more: the narrowest first, which a
-- wider one may serve for. One whose table somebody reads stays until the next time: who waits for it would keep other
-- readers out.
create or replace function cdc.drop_unused_indexes(model_schema text) returns void
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '100ms' as $$
declare
    unused regclass;
begin
    for unused in
        select c.oid
        from pg_class as c
        inner join pg_namespace as n on n.oid = c.relnamespace
        where
            c.relkind = 'i' and n.nspname = model_schema and c.relname ~ '^waltally_[0-9a-f]{32}$'
            and pg_has_role(c.relowner, 'usage')
        order by c.relnatts, c.relname
    loop
        continue when cdc.is_index_needed(unused);
        begin
            execute format('drop index %s', unused);
        exception
            when lock_not_available then null;
        end;
    end loop;
end
$$;
