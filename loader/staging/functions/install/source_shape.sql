-- How a table of a slot's source is, with its names; null where it is in another database and nobody has read it.
create or replace function cdc.source_shape(log cdc.slot_position, source_table text) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case
        when cdc.is_own(log) then coalesce(
            (
                select jsonb_build_object('schema', n.nspname, 'name', c.relname) || cdc.table_shape(n.nspname, c.relname)
                from pg_class as c
                inner join pg_namespace as n on n.oid = c.relnamespace
                where n.nspname || '.' || c.relname = source_table and c.relkind in ('r', 'p')
                limit 1
            ),
            '{"columns": []}'
        )
        else (
            select jsonb_build_object('schema', known.table_schema, 'name', known.table_name) || known.shape
            from cdc.source_table as known
            where known.slot_name = log.slot_name and known.table_schema || '.' || known.table_name = source_table
        )
    end
$$;
