-- The database applies: apply(slot) brings every model of a slot to one position in one transaction.
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
    is_refresh boolean
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
        slot_name, model_name, fact_name, declaration, routine, reader, needs, is_refresh_asked
    )
    values (
        slot, model, fact, install_model.declaration, install_model.routine, install_model.reader,
        install_model.needs, is_refresh
    )
    on conflict on constraint installed_model_pkey do update
    set
        fact_name = excluded.fact_name,
        declaration = excluded.declaration,
        routine = excluded.routine,
        reader = excluded.reader,
        needs = excluded.needs,
        is_refresh_asked = stored.is_refresh_asked or excluded.is_refresh_asked,
        installed_at = now(),
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

-- Bring one model from its position to to_lsn, or raise; the caller makes it a subtransaction. The
-- error WL001 means that somebody else changes the model at this moment: the next apply takes it.
-- `batch` are the changes in between, where the caller has read them already; else it reads them in
-- parts of chunk_size changes.
create function apply_model(
    plan model_plan, to_lsn pg_lsn, is_read boolean, batch change[], chunk_size bigint
) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    installed cdc.installed_model;
    before cdc.model_watermark;
    target record;
    call text;
    is_rebuild constant boolean := plan.step = 'rebuild';
    truncated text[];
    changes cdc.change[] := batch;
    result cdc.outcome;
    rejected_lsn pg_lsn;
    left_out jsonb := plan.left_out;
    first_lsn pg_lsn;
    first_ordinal bigint;
    end_lsn pg_lsn;
    end_ordinal bigint;
    is_last boolean;
    listing boolean;
begin
    if not pg_try_advisory_xact_lock(cdc.lock_key('model', plan.model_name)) then
        raise exception 'another session builds it' using errcode = 'WL001';
    end if;
    -- What the plan was made of may have changed before the lock.
    select stored.* into installed
    from cdc.installed_model as stored
    where stored.slot_name = plan.slot_name and stored.model_name = plan.model_name;
    if (installed.declaration, installed.routine, installed.table_nos, installed.places)
        is distinct from (plan.declaration, plan.routine, plan.table_nos, plan.places)
    then
        raise exception 'dbt has installed it again meanwhile' using errcode = 'WL001';
    end if;
    -- Somebody else may have applied the same changes.
    select mark.* into before
    from cdc.model_watermark as mark
    where mark.slot_name = plan.slot_name and mark.model_name = plan.model_name;
    if before.applied_lsn is distinct from plan.applied_lsn
        or not is_rebuild
        and (before.baseline_id, before.declaration) is distinct from (plan.baseline_id, plan.declaration)
    then
        raise exception 'another session has moved it meanwhile' using errcode = 'WL001';
    end if;
    target := cdc.find_installed(
        installed.routine, '(text, text, cdc.change[], integer[], integer[], text[])', 'cdc.outcome'
    );
    call := format(
        'select * from %s(cdc.unless_replaced($1, $7, $8), $2, $3, $4, $5, $6)', target.name
    );

    if is_rebuild then
        truncated := cdc.truncated_tables(plan.slot_name, plan.from_lsn, to_lsn);
        execute call into result
        using
            case when plan.applied_lsn is null and plan.baseline_id is null and not installed.is_refresh_asked
                then 'begin' else 'rebuild' end,
            plan.slot_name, null::cdc.change[], plan.table_nos, plan.places, truncated,
            target.oid, target.version;
        if result.is_replaced then
            -- The rows of other slots are gone too: they start from their baselines.
            update cdc.model_watermark as other
            set declaration = null
            where other.model_name = plan.model_name and other.slot_name <> plan.slot_name;
        end if;
        delete from cdc.archived_delete as old
        where
            old.slot_name = plan.slot_name
            and old.model_name = plan.model_name
            and (
                old.commit_lsn >= plan.from_lsn
                or not exists (
                    select from cdc.model_watermark as mark
                    where
                        mark.slot_name = plan.slot_name
                        and mark.model_name = plan.model_name
                        and mark.declaration = plan.declaration
                )
            );
    end if;

    -- Once for all changes; and once more change by change, where some have to be listed.
    foreach listing in array array[false, true] loop
        exit when listing and rejected_lsn is null;
        first_lsn := plan.from_lsn;
        first_ordinal := 0;
        loop
            is_last := true;
            if not is_read or listing then
                select log.commit_lsn, log.ordinal into end_lsn, end_ordinal
                from cdc.change_log as log
                where
                    log.slot_name = plan.slot_name
                    and log.commit_lsn >= first_lsn
                    and log.commit_lsn < to_lsn
                    and (log.commit_lsn, log.ordinal) >= (first_lsn, first_ordinal)
                order by log.slot_name, log.commit_lsn, log.ordinal
                offset chunk_size
                limit 1;
                is_last := not found;
                if is_last then
                    end_lsn := to_lsn;
                    end_ordinal := 0;
                end if;
                changes := cdc.read_changes(
                    installed.reader, plan.slot_name, plan.from_lsn, to_lsn,
                    first_lsn, first_ordinal, end_lsn, end_ordinal, listing
                );
            end if;
            execute call into result
            using
                case when listing then 'list' when is_rebuild then 'refill' else 'add' end,
                plan.slot_name, changes, plan.table_nos, plan.places, truncated,
                target.oid, target.version;
            if not listing then
                rejected_lsn := greatest(rejected_lsn, result.rejected_lsn);
                left_out := cdc.add_left_out(left_out, result.left_out);
            end if;
            exit when is_last;
            first_lsn := end_lsn;
            first_ordinal := end_ordinal;
        end loop;
    end loop;

    -- Nothing of this is locked: what was read above may be of another seed or of a log that was pruned.
    if exists (
        select from cdc.slot_position as log
        where log.slot_name = plan.slot_name and log.start_lsn > plan.from_lsn
    ) then
        raise exception 'the change log was pruned meanwhile' using errcode = 'WL001';
    end if;
    if (
        select baseline.baseline_id
        from cdc.baseline
        where baseline.slot_name = plan.slot_name and baseline.fact_name = plan.fact_name
    ) is distinct from plan.baseline_id then
        raise exception 'its baseline was replaced meanwhile' using errcode = 'WL001';
    end if;
    -- Two conditions: as one it would be planned anew for each batch, to be false at once.
    if is_rebuild then
        if exists (
            select from cdc.baseline_rejection as rejected
            where rejected.slot_name = plan.slot_name and rejected.fact_name = plan.fact_name
        ) then
            rejected_lsn := greatest(rejected_lsn, plan.snapshot_lsn - 1);
        end if;
    end if;

    insert into cdc.model_watermark as stored (
        model_name, slot_name, applied_lsn, baseline_id, declaration, rejected_lsn, left_out
    )
    values (
        plan.model_name, plan.slot_name, to_lsn, plan.baseline_id, plan.declaration,
        rejected_lsn, left_out
    )
    on conflict on constraint model_watermark_pkey do update
    set
        applied_lsn = excluded.applied_lsn,
        baseline_id = excluded.baseline_id,
        declaration = excluded.declaration,
        rejected_lsn = case
            when is_rebuild then excluded.rejected_lsn
            else greatest(stored.rejected_lsn, excluded.rejected_lsn)
        end,
        left_out = excluded.left_out,
        moved_at = now();
    if installed.error is not null or installed.is_refresh_asked then
        update cdc.installed_model as stored
        set
            is_refresh_asked = stored.is_refresh_asked and not is_rebuild,
            error = null, remedy = null, failures = 0, retry_at = null
        where stored.slot_name = plan.slot_name and stored.model_name = plan.model_name;
    end if;
end
$$;

-- Write down what a model failed with. A lock that somebody holds is tried again each second, anything
-- else ever more seldom, so that it does not slow the other models.
create function record_failure(plan model_plan, code text, message text, hint text) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    update cdc.installed_model as stored
    set
        error = case when code = '55P03' then 'it could not be locked: ' else '' end || message,
        remedy = coalesce(
            nullif(hint, ''),
            case code
                when '55P03' then 'nothing; it is tried again'
                when '22003' then format(
                    'declare a wider type for the measure, then `loader setup`, '
                    '`spark-submit spark/seed.py --fact %s`, `dbt build`',
                    plan.fact_name
                )
                else '`dbt build` makes what is missing and tries it at once'
            end
        ),
        failed_at = clock_timestamp(),
        failures = case when code = '55P03' then 0 else failures + 1 end,
        retry_at = clock_timestamp() + make_interval(
            secs => case when code = '55P03' then 1 else least(60, 2 ^ least(failures, 10)) end
        )
    where stored.slot_name = plan.slot_name and stored.model_name = plan.model_name
$$;

-- Where the models are that follow; null where none does. One whose baseline is ahead of the log is not
-- among them: the others would pass over what is staged in between.
create function front_of(slot text) returns pg_lsn
language sql stable set search_path = pg_catalog, pg_temp as $$
    select max(plans.applied_lsn)
    from cdc.plan_models(slot) as plans
    where plans.step = 'add' and plans.error is null and plans.applied_lsn <= plans.position_lsn
$$;

-- Whether a table is truncated of which a measure adds up the rows with those of another table. What it
-- had added is not known then, so the model has to start from its baseline again.
create function is_truncated_with_others(plan model_plan, to_lsn pg_lsn) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    mixed text[];
begin
    if not plan.declaration @? '$.measures[*].of[1]' then
        return false;
    end if;
    select array_agg((part ->> 'schema') || '.' || (part ->> 'table')) into mixed
    from jsonb_array_elements(plan.declaration -> 'tables') as part
    cross join jsonb_array_elements(plan.declaration -> 'measures') as measure
    where measure @? '$.of[1]' and measure -> 'of' ? (part ->> 'name');
    return coalesce(
        mixed && cdc.truncated_tables(plan.slot_name, plan.from_lsn, to_lsn), false
    );
end
$$;

-- Bring a model to to_lsn in a subtransaction and return whether that succeeded; an error is written down.
create function try_model(
    plan model_plan, to_lsn pg_lsn, is_read boolean, batch change[], slice_size bigint
) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    code text;
    message text;
    hint text;
begin
    if plan.step = 'add' and cdc.is_truncated_with_others(plan, to_lsn) then
        update cdc.installed_model as stored
        set is_refresh_asked = true
        where stored.slot_name = plan.slot_name and stored.model_name = plan.model_name;
    else
        perform cdc.apply_model(plan, to_lsn, is_read, batch, slice_size);
    end if;
    return true;
exception
    when others then
        get stacked diagnostics
            code = returned_sqlstate, message = message_text, hint = pg_exception_hint;
        if code <> 'WL001' then
            perform cdc.record_failure(plan, code, message, hint);
        end if;
        return false;
end
$$;

-- The models that follow are at one position, the front. Bring them to the next one together, and
-- say whether more is staged. A model that fails stays behind and is not in `front`.
create function apply_front(
    slot text, slice_size bigint, out front text[], out front_lsn pg_lsn, out is_more boolean
)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    plans cdc.model_plan[];
    plan cdc.model_plan;
    staged_lsn pg_lsn;
    begin_lsn pg_lsn;
    is_large boolean;
    is_read boolean;
    one_reader text;
    changes cdc.change[];
    touched integer[];
    untouched text[] := '{}';
begin
    perform pg_advisory_xact_lock(cdc.lock_key('slot', slot));
    select array_agg(ready), max(ready.position_lsn), max(ready.applied_lsn)
    into plans, staged_lsn, begin_lsn
    from cdc.plan_models(slot) as ready
    where ready.step = 'add' and ready.error is null and ready.applied_lsn <= ready.position_lsn;
    select array_agg(ready.model_name) into front
    from unnest(plans) as ready
    where ready.applied_lsn = begin_lsn;
    front_lsn := begin_lsn;
    is_more := false;
    if begin_lsn is null or staged_lsn <= begin_lsn then
        return;
    end if;
    select slice.end_lsn, slice.is_large into front_lsn, is_large
    from cdc.slice_end(slot, begin_lsn, staged_lsn, slice_size) as slice;
    is_more := front_lsn < staged_lsn;
    front := '{}';

    for one_reader in select distinct ready.reader from unnest(plans) as ready order by ready.reader loop
        is_read := not is_large;
        if is_read then
            begin
                changes := cdc.read_changes(
                    one_reader, slot, begin_lsn, front_lsn, begin_lsn, 0, front_lsn, 0, false
                );
                -- 0 stands for a change that names no table: every model lists it.
                select coalesce(array_agg(distinct coalesce(change.table_no, 0)), '{}') into touched
                from unnest(changes) as change;
            exception
                when others then
                    -- Each of its models meets the same error by itself, and models of other readers go on.
                    is_read := false;
            end;
        end if;
        foreach plan in array plans loop
            continue when plan.reader <> one_reader or plan.applied_lsn < begin_lsn;
            if is_read and not (plan.table_nos || 0) && touched then
                untouched := untouched || plan.model_name;
            elsif cdc.try_model(plan, front_lsn, is_read, changes, slice_size) then
                front := front || plan.model_name;
            end if;
        end loop;
    end loop;
    if front <> '{}' then
        perform pg_notify('waltally', json_build_object('slot', slot, 'position', front_lsn)::text);
    end if;
    if untouched <> '{}' then
        update cdc.model_watermark as mark
        set applied_lsn = front_lsn, moved_at = now()
        where
            mark.slot_name = slot
            and mark.model_name = any (untouched)
            and mark.applied_lsn = begin_lsn;
        front := front || untouched;
    end if;
end
$$;

-- One step of one model that is not at the front, which is at front_lsn: a rebuild, or a slice of what it
-- lacks. Return whether it was tried: it moved, or what it failed with is written down.
create function apply_behind(plan model_plan, front_lsn pg_lsn, slice_size bigint) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    to_lsn pg_lsn := coalesce(front_lsn, greatest(plan.position_lsn, plan.from_lsn));
begin
    if plan.step = 'add' then
        if to_lsn <= plan.from_lsn then
            update cdc.installed_model as stored
            set error = null, remedy = null, failures = 0, retry_at = null
            where
                stored.slot_name = plan.slot_name
                and stored.model_name = plan.model_name
                and stored.error is not null;
            return false;
        end if;
        to_lsn := (cdc.slice_end(plan.slot_name, plan.from_lsn, to_lsn, slice_size)).end_lsn;
        -- One that failed may wait for a lock again: it joins only after it has succeeded without the front's.
        if to_lsn = front_lsn and plan.error is null then
            -- The last piece: the front does not move on meanwhile.
            perform pg_advisory_xact_lock(cdc.lock_key('slot', plan.slot_name));
            front_lsn := coalesce(cdc.front_of(plan.slot_name), front_lsn);
            to_lsn := (cdc.slice_end(plan.slot_name, plan.from_lsn, front_lsn, slice_size)).end_lsn;
        end if;
    elsif to_lsn < plan.from_lsn then
        -- Its baseline is ahead of the others: it joins them once they are there.
        return false;
    end if;
    if not cdc.try_model(plan, to_lsn, false, null, slice_size) then
        return exists (
            select from cdc.installed_model as stored
            where
                stored.slot_name = plan.slot_name
                and stored.model_name = plan.model_name
                and stored.retry_at > clock_timestamp()
        );
    end if;
    perform pg_notify('waltally', json_build_object('slot', plan.slot_name, 'position', to_lsn)::text);
    return true;
end
$$;

-- How many changes a model takes at once. Tests replace it.
create function slice_size() returns bigint language sql immutable as 'select 200000::bigint';

-- Apply what is staged for a slot, in the caller's transaction: the models that follow move to the next
-- position together, and each model behind them makes a step of its own. is_behind says that another call
-- has more to do at once. `part` may be front or behind: then one caller keeps the front fresh, and is
-- told of the models there alone, while another helps the models behind, one at a call.
create function apply(slot text, part text default 'all')
returns table (
    model_name text, state text, reason text, remedy text, applied_lsn pg_lsn, is_behind boolean
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set row_security = off
as $$
declare
    slice_size constant bigint := cdc.slice_size();
    plan cdc.model_plan;
    front text[];
    front_lsn pg_lsn;
    is_more boolean := false;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception '% reads what was committed while it waits, so it needs READ COMMITTED', 'cdc.apply'
            using hint = 'set transaction isolation level read committed;';
    elsif part not in ('all', 'front', 'behind') then
        raise exception 'part is %; it takes all, front or behind', part;
    elsif not exists (select from cdc.slot_position as log where log.slot_name = slot) then
        raise exception 'no change log for slot %', slot using hint = '`loader setup` makes it';
    end if;
    if part <> 'behind' then
        select done.front, done.front_lsn, done.is_more into front, front_lsn, is_more
        from cdc.apply_front(slot, slice_size) as done;
    end if;
    if part = 'front' then
        return query
        select ready.name, 'follows', null, null, front_lsn, is_more
        from unnest(front) as ready (name);
        return;
    else
        front_lsn := coalesce(front_lsn, cdc.front_of(slot));
        for plan in
            select ready.*
            from cdc.plan_models(slot) as ready
            where
                ready.step is not null
                and (ready.retry_at is null or ready.retry_at <= clock_timestamp())
                and (ready.step, ready.error, ready.applied_lsn) is distinct from ('add', null, front_lsn)
            order by ready.step desc, ready.applied_lsn, ready.model_name
        loop
            -- One that was rebuilt may be the first at the front.
            front_lsn := coalesce(front_lsn, cdc.front_of(slot));
            -- What was written down is locked: a wait for the front would be a deadlock with its caller.
            exit when cdc.apply_behind(plan, front_lsn, slice_size) and part = 'behind';
        end loop;
    end if;

    return query
    with ready as (
        select
            plans.*,
            max(plans.applied_lsn) filter (
                where plans.step = 'add' and plans.error is null and plans.applied_lsn <= plans.position_lsn
            ) over () as front_lsn
        from cdc.plan_models(slot) as plans
    )

    select
        ready.model_name,
        ready.state,
        ready.reason,
        ready.remedy,
        ready.applied_lsn,
        coalesce(
            case
                when ready.step is null or ready.retry_at > clock_timestamp() then false
                when ready.step = 'rebuild' then ready.from_lsn <= coalesce(ready.front_lsn, ready.from_lsn)
                when ready.applied_lsn = ready.front_lsn then is_more
                else ready.applied_lsn < coalesce(ready.front_lsn, ready.position_lsn)
            end,
            false
        )
    from ready
    order by ready.model_name;
end
$$;

comment on function apply(text, text) is
    'Bring the models of a slot to one position: what loader run --build, dbt build and anybody else call.';

-- Wait until every model of the slot holds what was committed before lsn; false where the time is over.
-- The lock tells the loader that somebody waits: it then stores its position also where the source has
-- written nothing but little WAL of others.
create function wait_for(slot text, lsn pg_lsn, timeout interval) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    deadline constant timestamptz := clock_timestamp() + timeout;
    is_told boolean := false;
begin
    loop
        is_told := is_told or pg_try_advisory_xact_lock_shared(cdc.lock_key('wait', slot));
        if exists (
            select from cdc.slot_position as log
            where log.slot_name = slot and log.position_lsn >= lsn
        ) and not exists (
            select from cdc.plan_models(slot) as plans
            where
                plans.state <> 'follows'
                or (
                    plans.applied_lsn < lsn
                    and exists (
                        select from cdc.change_log as log
                        where
                            log.slot_name = slot
                            and log.commit_lsn >= plans.applied_lsn
                            and log.commit_lsn < lsn
                    )
                )
        ) then
            return true;
        end if;
        if clock_timestamp() >= deadline then
            return false;
        end if;
        perform pg_sleep(0.005);
    end loop;
end
$$;

comment on function wait_for(text, pg_lsn, interval) is
    'Read your own writes: true once every model of the slot holds what was committed before lsn.';

-- Whoever may call these acts on the facts with the rights of their owners.
revoke execute on function apply(text, text) from public;
revoke execute on function wait_for(text, pg_lsn, interval) from public;
revoke execute on function install_model(
    text, text, text, jsonb, text, text, jsonb, jsonb, boolean
) from public;
