-- A source and its stream, without a slot: triggers write down each row as the plugin would print it.
create schema lab;

-- What a query sees where a value is not finite, and the same without the rows that it cannot take.
create schema seen;

create schema good;

create schema one;

create type lab.mood as enum ('sad', 'ok', 'it''s', 'Ünder "x"');

create domain lab.amount as numeric(12, 2);

create domain lab.blob as bytea;

create table lab.change (
    n bigint generated always as identity primary key,
    table_name text not null,
    action text not null,
    old_values text[],
    new_values text[]
);

-- By table the ids of rows that a query cannot take.
create table lab.bad (table_name text, id bigint);

-- The expression for a column's value as the stream has it; that of a domain as text.
create function lab.printed(row_name text, name name, type_oid oid) returns text
language sql as $$
    select format(
        case
            when type_oid = 'bytea'::regtype then 'encode(%1$s, ''hex'')'
            when type_oid in ('numeric'::regtype, 'real'::regtype, 'double precision'::regtype)
                then 'case when %1$s::text not in (''NaN'', ''Infinity'', ''-Infinity'') then %1$s::text end'
            else 'case when %1$s is not null then format(''%%s'', %1$s) end'
        end,
        format('%s.%I', row_name, name)
    )
$$;

-- Follow a table of this schema, whose first column is its id. Rows that somebody deletes are kept in lab.purged_….
create function lab.follow(name text) returns void
language plpgsql as $$
declare
    names text := (
        select string_agg(format('%I', a.attname), ', ' order by a.attnum)
        from pg_attribute as a where a.attrelid = ('lab.' || quote_ident(name))::regclass and a.attnum > 0
    );
    finite text := (
        select string_agg(
            case
                when a.atttypid in ('numeric'::regtype, 'real'::regtype, 'double precision'::regtype, 'lab.amount'::regtype) then format(
                    'case when %1$I::text not in (''NaN'', ''Infinity'', ''-Infinity'') then %1$I end as %1$I', a.attname
                )
                else format('%I', a.attname)
            end, ', ' order by a.attnum
        )
        from pg_attribute as a where a.attrelid = ('lab.' || quote_ident(name))::regclass and a.attnum > 0
    );
    old_values text;
    new_values text;
begin
    select
        format('array[%s]::text[]', string_agg(lab.printed('old', a.attname, a.atttypid), ', ' order by a.attnum)),
        format('array[%s]::text[]', string_agg(lab.printed('new', a.attname, a.atttypid), ', ' order by a.attnum))
    into old_values, new_values
    from pg_attribute as a where a.attrelid = ('lab.' || quote_ident(name))::regclass and a.attnum > 0;
    execute format('create table lab.%I (like lab.%I)', 'purged ' || name, name);
    execute format(
        $body$
        create function lab.%1$I() returns trigger language plpgsql as $trigger$
        begin
            if tg_op = 'TRUNCATE' then
                insert into lab.change (table_name, action) values (%2$L, 'T');
                delete from lab.%3$I;
            else
                insert into lab.change (table_name, action, old_values, new_values) values (
                    %2$L, left(tg_op, 1),
                    case when tg_op <> 'INSERT' then %4$s end, case when tg_op <> 'DELETE' then %5$s end
                );
                if tg_op = 'DELETE' then
                    insert into lab.%3$I select old.*;
                end if;
            end if;
            return null;
        end
        $trigger$
        $body$,
        'follow ' || name, name, 'purged ' || name, old_values, new_values
    );
    execute format('create trigger follow after insert or update or delete on lab.%I for each row execute function lab.%I()', name, 'follow ' || name);
    execute format('create trigger follow_all after truncate on lab.%I execute function lab.%I()', name, 'follow ' || name);
    execute format(
        'create view seen.%1$I as select %2$s from (select * from lab.%1$I '
        'union all select * from lab.%3$I where current_setting(''lab.purged'') ~ %4$L) as rows',
        name, finite, 'purged ' || name, '\m' || name || '\M'
    );
    -- Nobody's condition is to be asked of the rows that a view leaves out.
    execute format(
        'create view good.%1$I as select * from seen.%1$I where id not in (select bad.id from lab.bad where bad.table_name = %1$L) offset 0', name
    );
    execute format('create view one.%1$I as select * from seen.%1$I where id::text || %2$L = current_setting(''lab.one'') offset 0', name, ' ' || name);
end
$$;

-- The changes from one number to another one, as a reader gives them to a model.
-- gives  [{"table": name, "places": of the values, "is_alone": whether deletes are told apart}]
create function lab.changes(gives jsonb, is_each boolean, from_n bigint, to_n bigint, cancel_n bigint default null) returns cdc.change[]
language sql as $$
    with numbered as (
        select
            change.*,
            given.place::integer as table_no,
            (given.value ->> 'is_alone')::boolean as is_alone,
            array(select (one.value)::integer from jsonb_array_elements_text(given.value -> 'places') with ordinality as one order by one.ordinality)
                as places
        from lab.change
        inner join jsonb_array_elements(gives) with ordinality as given (value, place) on given.value ->> 'table' = change.table_name
        where change.n > from_n and change.n <= to_n
    ),

    valued as (
        select
            numbered.table_no,
            numbered.action,
            '0/1000'::pg_lsn + numbered.n as commit_lsn,
            1 as ordinal,
            exists (
                select from lab.change as later
                where later.table_name = numbered.table_name and later.action = 'T' and later.n > numbered.n and later.n <= coalesce(cancel_n, to_n)
            ) as is_cancelled,
            case when old_values is not null then array(select old_values[one.place] from unnest(places) with ordinality as one (place, number) order by number) end
                as old_values,
            case when new_values is not null then array(select new_values[one.place] from unnest(places) with ordinality as one (place, number) order by number) end
                as new_values,
            is_each or is_alone and action = 'D' as is_alone
        from numbered
    ),

    grouped as (
        select
            table_no, action, case when is_alone then commit_lsn end as commit_lsn, case when is_each then ordinal end as ordinal, is_cancelled,
            old_values, new_values, count(*) as change_count, max(commit_lsn) as last_lsn
        from valued
        where (action = 'U' and old_values = new_values) is not true
        group by 1, 2, 3, 4, 5, 6, 7
    )

    select array_agg(row(
        table_no, action, commit_lsn, ordinal, is_cancelled, null, old_values, new_values, change_count, last_lsn, null
    )::cdc.change)
    from grouped
$$;

create table lab.rejected (
    model_name text, slot_name text, commit_lsn pg_lsn, ordinal bigint, xid bigint, committed_at timestamptz, source_table text,
    action text, reason text, payload text
);

create table cdc.change_log_lab partition of cdc.change_log default;

create function lab.significant(x numeric, digits integer) returns numeric language sql immutable as $$
    select case
        when x = 0 or x in ('NaN', 'Infinity', '-Infinity') then x
        else round(x, digits - 1 - floor(log(abs(x)))::integer)
    end
$$;
