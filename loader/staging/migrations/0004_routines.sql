-- The routines that dbt writes for a model: how they are installed, what they are given, how they are called.
-- Runs with search_path set to the staging schema.

create type change as (
    table_no integer,
    action text,
    commit_lsn pg_lsn,
    ordinal bigint,
    is_cancelled boolean,
    problem text,
    old_values text[],
    new_values text[],
    change_count bigint,
    last_lsn pg_lsn
);

comment on type change is
    'A change as a model''s routine takes it, or several that look alike.';
comment on column change.table_no is 'Place of the source table among the reader''s, from 1; null where the change names none.';
comment on column change.commit_lsn is 'Its position, with ordinal; null where changes that look alike are one.';
comment on column change.is_cancelled is 'Whether a TRUNCATE of the table comes later in the batch.';
comment on column change.problem is 'Why no model can count the change; null where nothing is wrong with it as such.';
comment on column change.last_lsn is 'The newest commit LSN of the changes.';

create type outcome as (
    rejected_lsn pg_lsn,
    left_out jsonb,
    is_replaced boolean
);

comment on type outcome is 'What a model''s routine did.';
comment on column outcome.rejected_lsn is 'The newest change that could not be counted; null where none.';
comment on column outcome.left_out is
    'Rows more or fewer in no group: {"the table''s name": {"row_count": 3, "is_truncated": false}}.';
comment on column outcome.is_replaced is 'Whether the rows of all slots went because the table got other columns.';

-- One key for each thing that is locked: by its kind and its name.
create function lock_key(kind text, name text) returns bigint
language sql immutable strict parallel safe as $$
    select pg_catalog.hashtextextended('waltally ' || kind || ' ' || name, 0)
$$;

-- Where a batch that begins at from_lsn ends if it is to hold so many changes at most: at the end of a
-- source transaction, to_lsn at the latest. One transaction that is larger goes whole, in several parts.
create function slice_end(
    slot text, from_lsn pg_lsn, to_lsn pg_lsn, size bigint, out end_lsn pg_lsn, out is_large boolean
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    first_lsn pg_lsn;
begin
    is_large := false;
    select log.commit_lsn into end_lsn
    from cdc.change_log as log
    where log.slot_name = slot and log.commit_lsn >= from_lsn and log.commit_lsn < to_lsn
    order by log.slot_name, log.commit_lsn, log.ordinal
    offset size
    limit 1;
    if not found then
        end_lsn := to_lsn;
        return;
    end if;

    select log.commit_lsn into first_lsn
    from cdc.change_log as log
    where log.slot_name = slot and log.commit_lsn >= from_lsn
    order by log.slot_name, log.commit_lsn, log.ordinal
    limit 1;
    if end_lsn > first_lsn then
        return;
    end if;

    is_large := true;
    select log.commit_lsn into end_lsn
    from cdc.change_log as log
    where log.slot_name = slot and log.commit_lsn > first_lsn and log.commit_lsn < to_lsn
    order by log.slot_name, log.commit_lsn, log.ordinal
    limit 1;
    end_lsn := coalesce(end_lsn, to_lsn);
end
$$;

-- Where a routine finds its values in what a reader gives; see installed_model.
create function find_places(needs jsonb, gives jsonb, out table_nos integer[], out places integer[])
language sql immutable set search_path = pg_catalog, pg_temp as $$
    with given as (
        select
            one.value ->> 0 as source_table,
            one.place::integer as table_no,
            one.value -> 1 as list
        from jsonb_array_elements(gives) with ordinality as one (value, place)
    ),

    needed as (
        select
            need.place,
            given.table_no,
            array(
                select (
                    select there.place::integer
                    from jsonb_array_elements(given.list) with ordinality as there (value, place)
                    where there.value = own.value
                )
                from jsonb_array_elements(need.value -> 1) with ordinality as own (value, place)
                order by own.place
            ) as places,
            not exists (
                select from jsonb_array_elements(need.value -> 1) as own (value)
                where own.value <> 'null' and not given.list @> jsonb_build_array(own.value)
            ) as is_complete
        from jsonb_array_elements(needs) with ordinality as need (value, place)
        left join given on given.source_table = need.value ->> 0
    )

    select
        case when bool_and(needed.is_complete and needed.table_no is not null)
            then array_agg(needed.table_no order by needed.place) end,
        case when max(cardinality(needed.places)) > 0
            then array_agg(needed.places order by needed.place) end
    from needed
$$;

-- dbt calls this in the transaction that makes the routine. `needs` and `gives` are as in
-- installed_model and batch_reader.
create function install_model(
    slot text,
    model text,
    fact text,
    declaration jsonb,
    routine text,
    reader text,
    needs jsonb,
    gives jsonb,
    is_refresh boolean,
    engine text
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    refused record;
begin
    if not exists (select from cdc.slot_position as log where log.slot_name = slot) then
        raise exception 'no change log for slot %', slot
            using hint = 'Run `loader setup`, or set LOADER_SLOT to the slot that it made.';
    end if;
    insert into cdc.batch_reader as stored (reader, gives)
    values (install_model.reader, install_model.gives)
    on conflict on constraint batch_reader_pkey do update set gives = excluded.gives
    where stored.gives <> excluded.gives;

    insert into cdc.installed_model as stored (
        slot_name, model_name, fact_name, declaration, routine, reader, needs, is_refresh_asked, engine
    )
    values (
        slot, model, fact, install_model.declaration, install_model.routine, install_model.reader,
        install_model.needs, is_refresh, install_model.engine
    )
    on conflict on constraint installed_model_pkey do update
    set
        fact_name = excluded.fact_name,
        declaration = excluded.declaration,
        routine = excluded.routine,
        reader = excluded.reader,
        needs = excluded.needs,
        is_refresh_asked = stored.is_refresh_asked or excluded.is_refresh_asked,
        engine = excluded.engine,
        error = null,
        remedy = null,
        failures = 0,
        retry_at = null;

    -- The reader may have another order now, for models that were installed before.
    update cdc.installed_model as stored
    set (table_nos, places) = (
        select located.table_nos, located.places
        from cdc.find_places(stored.needs, install_model.gives) as located
    )
    where stored.reader = install_model.reader;

    -- What is refused is not asked for: else a fact that follows would wait for a rebuild that cannot be.
    if is_refresh then
        select plans.reason, plans.remedy into refused
        from cdc.plan_models(slot) as plans
        where plans.model_name = install_model.model and plans.state = 'failed';
        if found then
            raise exception '%: %', fact, refused.reason using hint = refused.remedy;
        end if;
    end if;
end
$$;

-- The changes of one part of a batch, by a reader: from first to end, a position and an ordinal each.
-- A TRUNCATE anywhere in the batch counts. Runs with the rights of the reader's owner alone.
create function read_changes(
    reader text,
    slot text,
    from_lsn pg_lsn,
    to_lsn pg_lsn,
    first_lsn pg_lsn,
    first_ordinal bigint,
    end_lsn pg_lsn,
    end_ordinal bigint,
    is_each boolean
) returns change[]
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    changes cdc.change[];
    target record := cdc.find_installed(
        reader, '(text, pg_lsn, pg_lsn, pg_lsn, bigint, pg_lsn, bigint, boolean)', 'cdc.change[]'
    );
begin
    execute format('select %s(cdc.unless_replaced($1, $9, $10), $2, $3, $4, $5, $6, $7, $8)', target.name)
    into changes
    using
        slot, from_lsn, to_lsn, first_lsn, first_ordinal, end_lsn, end_ordinal, is_each,
        target.oid, target.version;
    return changes;
end
$$;

-- A function that dbt has installed. It runs with the rights of dbt's role: one that would run with ours is
-- refused, and one that takes or gives other types, whose casts would run with ours.
create function find_installed(
    routine text, takes text, gives text, out name text, out oid oid, out version xid
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    -- Where this transaction has locked all that it reads, nothing told the session of what was committed since:
    -- it would run a routine as it was before dbt replaced it. To open a table that nothing else here opens does.
    perform pg_relation_size('pg_catalog.pg_largeobject');
    name := left(routine, strpos(routine, '(') - 1);
    select p.oid, p.xmin into find_installed.oid, find_installed.version
    from pg_proc as p
    where
        p.oid = to_regprocedure(name || takes)
        and p.prosecdef
        and not p.proretset
        and p.prorettype = gives::regtype;
    if not found then
        raise exception 'the function % is not there, not SECURITY DEFINER or not as dbt makes it', routine
            using hint = '`dbt build`';
    end if;
end
$$;

-- The value, an argument of a function that was found: whoever replaces that function meanwhile would have
-- another one run. Arguments are evaluated after the server has chosen what to call.
create function unless_replaced(value text, routine oid, version xid) returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (select from pg_proc as p where p.oid = routine and p.xmin = version) then
        raise exception 'dbt has installed it again meanwhile' using errcode = 'WL001';
    end if;
    return value;
end
$$;

-- How many rows of each table belong to no group after a part of a batch.
create function add_left_out(before jsonb, added jsonb) returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    part record;
begin
    before := coalesce(before, '{}');
    for part in select * from jsonb_each(added) loop
        before := jsonb_set(before, array[part.key], to_jsonb(
            (part.value ->> 'row_count')::bigint
            + case
                when (part.value ->> 'is_truncated')::boolean then 0
                else coalesce((before ->> part.key)::bigint, 0)
            end
        ));
    end loop;
    return before;
end
$$;

-- The tables that are truncated in a part of the log.
create function truncated_tables(slot text, from_lsn pg_lsn, to_lsn pg_lsn) returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
    select array_agg(distinct (parsed.message ->> 'schema') || '.' || (parsed.message ->> 'table'))
    from cdc.change_log as log
    cross join lateral (select cdc.jsonb_or_null(log.payload) as message) as parsed
    where
        log.slot_name = slot
        and log.commit_lsn >= from_lsn
        and log.commit_lsn < to_lsn
        -- The condition of the index change_log_truncates, word for word.
        and (action is null or action = 'T')
        and parsed.message ->> 'action' = 'T'
$$;

-- One step of a model's routine.
create function run_step(
    plan model_plan, step text, changes change[] default null, truncated text[] default null
) returns outcome
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    result cdc.outcome;
    target record := cdc.find_installed(
        plan.routine, '(text, text, cdc.change[], integer[], integer[], text[])', 'cdc.outcome'
    );
begin
    execute format(
        'select * from %s(cdc.unless_replaced($1, $7, $8), $2, $3, $4, $5, $6)', target.name
    )
    into result
    using
        step, plan.slot_name, changes, plan.table_nos, plan.places, truncated, target.oid, target.version;
    return result;
end
$$;

-- Let the owner of apply, and nobody else, execute functions that dbt has made.
create function grant_to_caller(functions text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    caller constant regrole := (
        select p.proowner from pg_proc as p where p.oid = 'cdc.apply(text, text)'::regprocedure
    );
    function regprocedure;
    place regnamespace;
begin
    foreach function in array functions::regprocedure[] loop
        select p.pronamespace into place from pg_proc as p where p.oid = function;
        execute format('revoke execute on function %s from public', function);
        execute format('grant execute on function %s to %s', function, caller);
        if not has_schema_privilege(caller, place, 'usage') then
            execute format('grant usage on schema %s to %s', place, caller);
        end if;
    end loop;
end
$$;

-- Make an index on these columns where no index begins with them. Not `create index if not exists`: it locks the
-- table before it looks, and so stops autovacuum.
create function keep_index(target regclass, columns text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select from pg_index as x
        where
            x.indrelid = target
            and x.indpred is null
            and columns = array(
                select a.attname::text
                from unnest(x.indkey) with ordinality as k (attnum, place)
                inner join pg_attribute as a on a.attrelid = x.indrelid and a.attnum = k.attnum
                order by k.place
            )
    ) then
        execute format('create index on %s (%s)', target, cdc.quoted(columns));
    end if;
end
$$;

-- Names as SQL wants them, in a list.
create function quoted(names text[]) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select string_agg(quote_ident(name), ', ' order by place)
    from unnest(names) with ordinality as names (name, place)
$$;

-- What every table has that a batch is added to. A batch finds its groups by the unique dimensions, where null
-- is a group too, and current rows by their primary key. Rows are updated in every build, and an update that
-- finds room on the page does not have to write the indexes.
create function keep_constraints(target regclass, key_name text, key text[], required text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    is_fact constant boolean := key_name like '%\_dimensions';
begin
    execute format(
        'alter table %s drop constraint if exists %I, set (fillfactor = 80)%s',
        target,
        key_name,
        (select string_agg(format(', alter column %I set not null', name), '') from unnest(required) as name)
    );
    if is_fact and not exists (
        select from pg_constraint as c where c.conrelid = target and c.contype = 'p'
    ) then
        execute format('alter table %s add primary key (id)', target);
    end if;
    execute format(
        'alter table %s add constraint %I %s (%s)',
        target,
        key_name,
        case when is_fact then 'unique nulls not distinct' else 'primary key' end,
        cdc.quoted(key)
    );
end
$$;

-- Give a model's table the columns of `pattern`, a query without rows, and return whether its rows went. Where
-- other columns than the derived ones change, or the key, nothing can be added to its rows. Then they go, but
-- where the `former` routine is named: there the table stays as it is. The table itself stays, with its grants
-- and with the views on columns that stay.
create function adapt_table(
    target regclass, pattern text, derived text[], key_name text, key text[], required text[], former text
) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    -- A name that is free: whoever calls apply may have made temporary tables before.
    pattern_name constant text := 'pattern_' || gen_random_uuid();
    is_other boolean;
    changes text;
begin
    execute format('create temporary table %I on commit drop as (%s) with no data', pattern_name, pattern);
    with columns as (
        select
            coalesce(new.attname, old.attname) as name,
            old.attname is not null as is_there,
            new.attname is not null as is_declared,
            (old.atttypid, old.atttypmod) is not distinct from (new.atttypid, new.atttypmod) as is_same,
            format_type(new.atttypid, new.atttypmod) as type
        from (
            select * from pg_attribute as a where a.attrelid = target and a.attnum > 0 and not a.attisdropped
        ) as old
        full join (
            select * from pg_attribute as a
            where a.attrelid = ('pg_temp.' || quote_ident(pattern_name))::regclass and a.attnum > 0
        ) as new on new.attname = old.attname
    ),

    judged as (
        select
            bool_or(columns.is_declared and not columns.is_same and columns.name <> all (derived))
            or not exists (
                select from pg_constraint as c
                where
                    c.conrelid = target
                    and c.conname = key_name
                    and key = array(
                        select a.attname::text
                        from unnest(c.conkey) with ordinality as k (attnum, place)
                        inner join pg_attribute as a on a.attrelid = c.conrelid and a.attnum = k.attnum
                        order by k.place
                    )
            ) as is_other
        from columns
    )

    select
        judged.is_other,
        (
            select string_agg(change.action, ', ' order by change.action desc)
            from (
                select format('drop column %I', columns.name) as action
                from columns
                where
                    columns.is_there and not columns.is_same
                    and case
                        when former is null then columns.is_declared or judged.is_other
                        -- A column that the former routine does not fill is somebody else's.
                        else exists (
                            select from pg_proc as p
                            where
                                p.oid = to_regproc(former)
                                and strpos(p.prosrc, '"' || replace(columns.name, '"', '""') || '"') > 0
                        )
                    end
                union all
                select format('add column %I %s', columns.name, columns.type)
                from columns
                where columns.is_declared and not columns.is_same
            ) as change
        )
    into is_other, changes
    from judged;
    execute format('drop table pg_temp.%I', pattern_name);
    if is_other and former is not null then
        return true;
    end if;
    if is_other then
        execute format('lock table %s in access exclusive mode', target);
        execute format('delete from %s', target);
    end if;
    if changes is not null then
        execute format('alter table %s %s', target, changes);
    end if;
    if is_other then
        perform cdc.keep_constraints(target, key_name, key, required);
    end if;
    return is_other;
exception
    when dependent_objects_still_exist then
        raise exception '% declares other columns, and a view or a key still needs an old one: %', target, sqlerrm
            using hint = 'Drop what needs the column, run dbt build, and make it again.';
end
$$;

-- Whoever may call these acts on the facts with the rights of their owners.
revoke execute on function install_model(
    text, text, text, jsonb, text, text, jsonb, jsonb, boolean, text
) from public;
