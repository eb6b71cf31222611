-- Tables and a change log, without a slot: triggers write what the plugin would print.
create schema lab;

-- The tables as a query is to see them: what is not finite is null.
create schema seen;

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
                    when type_oid in ('bigint'::regtype, 'integer'::regtype, 'boolean'::regtype) then '%1$s::text'
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
begin
    select
        string_agg(lab.printed('new', a.attname, a.atttypid, false), ', ' order by a.attnum),
        string_agg(lab.printed('new', a.attname, a.atttypid, leaves_out and a.attname in ('doc', 'raw')), ', ' order by a.attnum),
        string_agg(lab.printed('old', a.attname, a.atttypid, false), ', ' order by a.attnum) filter (where a.attname = any (identity)),
        string_agg(
            format(
                case when a.atttypid in ('numeric'::regtype, 'real'::regtype, 'double precision'::regtype)
                    then 'case when %1$I::text not in (''NaN'', ''Infinity'', ''-Infinity'') then %1$I end as %1$I' else '%1$I' end,
                a.attname
            ), ', ' order by a.attnum
        )
    into new_image, changed_image, old_image, finite
    from pg_attribute as a
    where a.attrelid = relation and a.attnum > 0 and not a.attisdropped;
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
    execute format('create or replace view seen.%I as select %s from %s', name, finite, relation);
end
$$;

-- The rows that a query gives of each row of a table with an id alone, as texts: without those that it cannot take.
create function lab.good_rows(query text, name text) returns setof text
language plpgsql as $$
declare
    row_id text;
begin
    for row_id in execute format('select id from lab.%I', name) loop
        begin
            return query execute replace(query, format('seen."%s"', name), format('(select * from seen.%I where id = %L)', name, row_id));
        exception
            when data_exception or cardinality_violation or feature_not_supported or syntax_error or program_limit_exceeded then
                null;
        end;
    end loop;
end
$$;
