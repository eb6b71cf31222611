-- Tables and a change log, without a slot: triggers write what the plugin would print.
create schema lab;

-- The tables as a query is to see them: what is not finite is null.
create schema seen;

-- The same without the rows that it cannot take, and one row alone.
create schema good;

create schema one;

-- Rows that somebody has deleted.
create schema purged;

-- By table the ids of rows that a query cannot take.
create table lab.bad (table_name text, id text);

create table cdc.change_log_lab partition of cdc.change_log default;

create sequence lab.ordinals;

create table lab.rejected (
    model_name text, slot_name text, commit_lsn pg_lsn, ordinal bigint, xid bigint, committed_at timestamptz, source_table text,
    action text, reason text, payload text
);

-- The expression for a column in an image; null, as of a large value that an update has not changed.
create function lab.printed(row_name text, name name, type_oid oid, may_be_left_out boolean) returns text
language sql as $$
    select format(
        case when may_be_left_out
            then 'case when not (old.%2$I is not distinct from new.%2$I and length(new.%2$I::text) > 50) then %1$s end' else '%1$s' end,
        format(
            '%L || coalesce(%s, %L) || %L', format('{"name":%s,"value":', to_json(name)),
            format(
                case
                    when type_oid = 'bytea'::regtype then 'to_json(encode(%1$s, ''hex''))::text'
                    when type_oid in ('numeric'::regtype, 'real'::regtype, 'double precision'::regtype)
                        then 'case when %1$s::text not in (''NaN'', ''Infinity'', ''-Infinity'') then %1$s::text end'
                    when type_oid in ('bigint'::regtype, 'integer'::regtype, 'smallint'::regtype, 'boolean'::regtype) then '%1$s::text'
                    else 'case when %1$s is not null then to_json(format(''%%s'', %1$s))::text end'
                end,
                format('%s.%I', row_name, name)
            ),
            'null', '}'
        ),
        name
    )
$$;

-- Follow a table. Old images have these columns; with `leaves_out`, new ones of updates have no large value that is the same.
create function lab.follow(name text, identity text[], leaves_out boolean) returns void
language plpgsql as $$
declare
    relation constant regclass := 'lab.' || name;
    new_image text;
    changed_image text;
    old_image text;
    finite text;
    own_id text;
begin
    select
        string_agg(lab.printed('new', a.attname, a.atttypid, false), ', ' order by a.attnum),
        string_agg(lab.printed('new', a.attname, a.atttypid, leaves_out and a.attname in ('doc', 'raw')), ', ' order by a.attnum),
        string_agg(lab.printed('old', a.attname, a.atttypid, false), ', ' order by a.attnum) filter (where a.attname = any (identity)),
        string_agg(
            format(
                case when coalesce(nullif(t.typbasetype, 0), t.oid) in ('numeric'::regtype, 'real'::regtype, 'double precision'::regtype)
                    then 'case when %1$I::text not in (''NaN'', ''Infinity'', ''-Infinity'') then %1$I end as %1$I'
                else '%1$I' end,
                a.attname
            ), ', ' order by a.attnum
        ),
        coalesce(max('id::text') filter (where a.attname = 'id'), 'null::text')
    into new_image, changed_image, old_image, finite, own_id
    from pg_attribute as a
    inner join pg_type as t on t.oid = a.atttypid
    where a.attrelid = relation and a.attnum > 0 and not a.attisdropped;
    execute format('drop table if exists purged.%I cascade', name);
    execute format('create table purged.%I (like %s)', name, relation);
    execute format(
        $body$
        create or replace function lab.%1$I() returns trigger language plpgsql as $trigger$
        begin
            insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at, action, payload)
            select
                'lab', '0/1000'::pg_lsn + pg_current_xact_id()::text::numeric, nextval('lab.ordinals'), 1, now(), left(tg_op, 1)::"char",
                '{"action":"' || left(tg_op, 1) || '","schema":"lab","table":"%2$s"' || case tg_op
                    when 'INSERT' then ',"columns":[' || concat_ws(',', %3$s) || ']'
                    when 'UPDATE' then ',"columns":[' || concat_ws(',', %4$s) || '],"identity":[' || concat_ws(',', %5$s) || ']'
                    when 'DELETE' then ',"identity":[' || concat_ws(',', %5$s) || ']'
                    else ''
                end || '}';
            if tg_op = 'DELETE' then
                insert into purged.%2$I select old.*;
            elsif tg_op = 'TRUNCATE' then
                delete from purged.%2$I;
            end if;
            return null;
        end
        $trigger$
        $body$,
        'follow_' || name, name, new_image, changed_image, old_image
    );
    execute format('drop trigger if exists follow on %s', relation);
    execute format('create trigger follow after insert or update or delete on %s for each row execute function lab.%I()', relation, 'follow_' || name);
    execute format('drop trigger if exists follow_all on %s', relation);
    execute format('create trigger follow_all after truncate on %s execute function lab.%I()', relation, 'follow_' || name);
    execute format(
        'create or replace view seen.%1$I as select %2$s from (select * from lab.%1$I union all '
        'select * from purged.%1$I where current_setting(''lab.purged'', true) ~ %3$L) as rows', name, finite, '\m' || name || '\M'
    );
    -- Nobody's condition is to be asked of the rows that a view leaves out.
    execute format(
        'create view good.%1$I as select * from seen.%1$I '
        'where %2$s not in (select bad.id from lab.bad where bad.table_name = %1$L) offset 0', name, own_id
    );
    execute format(
        'create view one.%1$I as select * from seen.%1$I where current_setting(''lab.one'') in ('''', %2$s || %3$L) offset 0',
        name, own_id, ' ' || name
    );
end
$$;

-- Whether a query cannot take a row, or all of them: it fails, or its first column says that something is not finite.
create function lab.is_bad(query text, row_name text) returns boolean
language plpgsql as $$
declare
    not_finite bigint;
begin
    perform set_config('lab.one', row_name, false);
    execute query into not_finite;
    return not_finite > 0;
exception
    when data_exception or cardinality_violation or feature_not_supported or syntax_error or program_limit_exceeded then
        return true;
end
$$;

-- Write down the rows of these tables that a query cannot take alone.
create function lab.find_bad(query text, names text[]) returns void
language plpgsql as $$
declare
    name text;
    row_id text;
begin
    delete from lab.bad;
    if lab.is_bad(query, '') then
        foreach name in array names loop
            for row_id in execute format('select to_jsonb(own) ->> ''id'' from seen.%I as own', name) loop
                insert into lab.bad select name, row_id where lab.is_bad(query, row_id || ' ' || name);
            end loop;
        end loop;
    end if;
end
$$;

create function lab.significant(x numeric, digits integer) returns numeric language sql immutable as $$
    select case
        when x = 0 or x in ('NaN', 'Infinity', '-Infinity') then x
        else round(x, digits - 1 - floor(log(abs(x)))::integer)
    end
$$;

-- A text that does not get shorter by compression.
create function lab.noise(size integer) returns text language sql immutable as $$
    select string_agg(md5(n::text), '' order by n) from generate_series(1, size) as n
$$;
