-- Whether values of a type that are equal always look alike, by its length and its collation. If not, as of 1.5 and
-- 1.50, a group has one of several values. A type that is not listed may have such values.
create or replace function cdc.equal_is_identical(value_type oid, value_typmod integer, value_collation oid)
returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return coalesce((
        select case
            when t.typtype = 'd' then cdc.equal_is_identical(t.typbasetype, t.typtypmod, value_collation)
            when t.typtype = 'e' then true
            when t.typtype = 'c' then coalesce((
                select bool_and(cdc.equal_is_identical(a.atttypid, a.atttypmod, a.attcollation))
                from pg_attribute as a
                where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
            ), true)
            when t.typtype in ('r', 'm') then (
                select cdc.equal_is_identical(r.rngsubtype, -1, r.rngcollation) and o.opcnamespace = 'pg_catalog'::regnamespace
                from pg_range as r
                inner join pg_opclass as o on o.oid = r.rngsubopc
                where t.oid in (r.rngtypid, r.rngmultitypid)
            )
            -- An array.
            when t.typsubscript = 'array_subscript_handler'::regproc
                then cdc.equal_is_identical(t.typelem, value_typmod, value_collation)
            when t.typnamespace <> 'pg_catalog'::regnamespace then false
            -- Without a length trailing zeros and blanks differ.
            when t.typname = 'numeric' then value_typmod <> -1
            when t.typname in ('text', 'varchar', 'bpchar', 'name')
                then (t.typname <> 'bpchar' or value_typmod <> -1)
                and not exists (select from pg_collation as c where c.oid = value_collation and not c.collisdeterministic)
            else t.typname in (
                'bool', 'int2', 'int4', 'int8', 'oid', 'xid8', 'pg_lsn', 'char', 'bytea', 'bit', 'varbit', 'uuid', 'money',
                'date', 'time', 'timetz', 'timestamp', 'timestamptz', 'inet', 'cidr', 'macaddr', 'macaddr8', 'tid',
                'int2vector', 'oidvector', 'tsvector'
            )
        end
        from pg_type as t
        where t.oid = value_type
    ), false);
end
$$;
