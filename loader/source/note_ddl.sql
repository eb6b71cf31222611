-- Tells waltally of DDL that changes rows although no change of a row is in the log.
--
--   psql -d notify -v loader=waltally_loader -f note_ddl.sql
--
-- A superuser of the source runs it, or the administrator of a managed one; `loader setup` prints the
-- command. Two event triggers write a logical message into the transaction of the DDL, and the models of
-- the table then wait for a seed. Run again, it replaces the functions of an older version. To remove them:
-- drop schema waltally cascade;

\set ON_ERROR_STOP on

begin;
-- Only an administrator can have made the event trigger.
select exists (
    select from pg_event_trigger as e
    inner join pg_proc as p on p.oid = e.evtfoid
    inner join pg_namespace as n on n.oid = p.pronamespace
    where e.evtname = 'waltally_rewrite' and n.nspname = 'waltally' and p.proowner = n.nspowner
) as is_made \gset
\if :is_made
-- With their event triggers. The prefix stays, and who may read it.
drop function waltally.note_rename(), waltally.note_rewrite() cascade;
drop function waltally.write_note(name, name, name[]);
\else
-- Fails where the schema exists: nothing in it may be anybody else's.
create schema waltally;

-- Only who knows the prefix can write such a message. The slot skips all others unread.
create table waltally.ddl_prefix as select 'waltally-' || gen_random_uuid() as prefix;
\endif
grant usage on schema waltally to :"loader";
grant select on waltally.ddl_prefix to :"loader";

-- In hexadecimal, because a message has no encoding of its own.
create function waltally.write_note(place name, relation name, columns name[]) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    select pg_logical_emit_message(true, prefix, encode(convert_to(
        json_build_object('schema', place, 'table', relation, 'columns', columns)::text, 'UTF8'
    ), 'hex'))
    from waltally.ddl_prefix
$$;

-- The two functions run when anybody alters a table. So they run as their owner, find names in
-- pg_catalog alone, and never stop the statement.
create function waltally.note_rename() returns event_trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    value record;
begin
    -- A column with its new name; a schema with its new name, or after a change of its owner.
    perform waltally.write_note(
        n.nspname, c.relname, case when c.oid is not null then array[a.attname] end
    )
    from pg_event_trigger_ddl_commands() as done
    left join pg_class as c on c.oid = done.objid and done.object_type = 'table column'
    left join pg_attribute as a on a.attrelid = c.oid and a.attnum = done.objsubid
    inner join pg_namespace as n on n.oid = coalesce(c.relnamespace, done.objid)
    where done.object_type in ('table column', 'schema');

    -- A table with its new name, or after a change of its owner: no other command writes its row type again. Not one
    -- that this transaction has made, as most partitions are.
    perform waltally.write_note(n.nspname, c.relname, null)
    from pg_event_trigger_ddl_commands() as done
    inner join pg_class as c on c.oid = done.objid
    inner join pg_type as t on t.oid = c.reltype
    inner join pg_namespace as n on n.oid = c.relnamespace
    inner join pg_attribute as born on born.attrelid = c.oid and born.attnum = -1
    where done.object_type = 'table' and age(t.xmin) <= 0 and age(born.xmin) > 0;

    -- A value of an enum with its new name. It can be used at once; one that was added cannot.
    for value in
        select e.enumtypid as enum, e.enumlabel as label
        from pg_event_trigger_ddl_commands() as done
        inner join pg_enum as e on e.enumtypid = done.objid
        where done.object_type = 'type' and age(e.xmin) <= 0
    loop
        begin
            perform enum_in(nameout(value.label), value.enum);
            perform waltally.write_note(n.nspname, c.relname, array_agg(a.attname))
            from pg_attribute as a
            inner join pg_class as c on c.oid = a.attrelid and c.relkind in ('r', 'p')
            inner join pg_namespace as n on n.oid = c.relnamespace
            where a.atttypid = value.enum
            group by n.nspname, c.relname;
        exception
            when unsafe_new_enum_value_usage then null;
        end;
    end loop;
exception
    when others then
        raise warning 'waltally does not know of this %: %', tg_tag, sqlerrm;
end
$$;

create function waltally.note_rewrite() returns event_trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    -- The columns that may have other values now. A column is written again in the catalog where it
    -- is new or has another type or expression, and sometimes with one before it; it loses its
    -- statistics only by the former. Of SET UNLOGGED and SET LOGGED (1), all.
    perform waltally.write_note(n.nspname, c.relname, altered.columns)
    from pg_class as c
    inner join pg_namespace as n on n.oid = c.relnamespace
    cross join lateral (
        select case when pg_event_trigger_table_rewrite_reason() & 1 = 0 then array(
            select a.attname
            from pg_attribute as a
            where
                a.attrelid = c.oid
                and a.attnum > 0
                and not a.attisdropped
                and age(a.xmin) <= 0
                and not exists (
                    select from pg_stats as s
                    where (s.schemaname, s.tablename, s.attname) = (n.nspname, c.relname, a.attname)
                )
        ) end
    ) as altered (columns)
    where c.oid = pg_event_trigger_table_rewrite_oid() and altered.columns is distinct from '{}';
exception
    when others then
        raise warning 'waltally does not know of this %: %', tg_tag, sqlerrm;
end
$$;

-- ALWAYS: also in a session that has session_replication_role set to replica.
create event trigger waltally_rename on ddl_command_end
    when tag in ('ALTER TABLE', 'ALTER SCHEMA', 'ALTER TYPE') execute function waltally.note_rename();
create event trigger waltally_rewrite on table_rewrite execute function waltally.note_rewrite();
alter event trigger waltally_rename enable always;
alter event trigger waltally_rewrite enable always;
revoke execute on all functions in schema waltally from public;
commit;
