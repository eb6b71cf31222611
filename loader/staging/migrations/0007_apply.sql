-- The database applies: apply(slot) brings every model of a slot to one position in one transaction.
-- Runs with search_path set to the staging schema.

-- Where the models are that move together; null where none does.
create function front_of(slot text) returns pg_lsn
language sql stable set search_path = pg_catalog, pg_temp as $$
    select max(plans.applied_lsn)
    from cdc.plan_models(slot) as plans
    where plans.is_ready
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
    concerned cdc.model_plan[];
    staged_lsn pg_lsn;
    begin_lsn pg_lsn;
    is_large boolean;
    step text;
    one_reader text;
    changes cdc.change[];
    touched integer[];
    untouched text[] := '{}';
begin
    perform pg_advisory_xact_lock(cdc.lock_key('slot', slot));
    select array_agg(ready), max(ready.position_lsn), max(ready.applied_lsn)
    into plans, staged_lsn, begin_lsn
    from cdc.plan_models(slot) as ready
    where ready.is_ready;
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
        -- Of the models' routines; null where each model reads its changes by itself.
        step := null;
        if not is_large then
            begin
                changes := cdc.read_changes(
                    one_reader, slot, begin_lsn, front_lsn, begin_lsn, 0, front_lsn, 0, false
                );
                -- 0 stands for a change that names no table: every model lists it.
                select
                    coalesce(array_agg(distinct coalesce(change.table_no, 0)), '{}'),
                    case when bool_and(change.action in ('I', 'U')) then 'add plain' else 'add' end
                into touched, step
                from unnest(changes) as change;
            exception
                when others then
                    -- Each of its models meets the same error by itself, and models of other readers go on.
                    step := null;
            end;
        end if;
        concerned := '{}';
        foreach plan in array plans loop
            continue when plan.reader <> one_reader or plan.applied_lsn < begin_lsn;
            if step is not null and not (plan.table_nos || 0) && touched then
                untouched := untouched || plan.model_name;
            else
                concerned := concerned || plan;
            end if;
        end loop;
        front := front || cdc.try_models(concerned, front_lsn, step, changes, slice_size);
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
    if cdc.try_models(array[plan], to_lsn, null, null, slice_size) = '{}' then
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
-- Also for the routines of the models: values are printed and read in one way, or the ids of a fact's groups would
-- change, and compiling takes longer than most batches.
set search_path = pg_catalog, pg_temp
set jit = off
set row_security = off
set standard_conforming_strings = on
set transform_null_equals = off
set DateStyle = 'ISO, MDY'
set IntervalStyle = postgres
set TimeZone = 'UTC'
set extra_float_digits = 1
set bytea_output = hex
as $$
declare
    slice_size constant bigint := cdc.slice_size();
    plan cdc.model_plan;
    front text[];
    front_lsn pg_lsn;
    is_more boolean := false;
    has_moved boolean := false;
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
                and ready.engine = 'database'
                and (ready.retry_at is null or ready.retry_at <= clock_timestamp())
                and (ready.step, ready.error, ready.applied_lsn) is distinct from ('add', null, front_lsn)
            order by ready.step desc, ready.applied_lsn, ready.model_name
        loop
            -- One that was rebuilt may be the first at the front.
            front_lsn := coalesce(front_lsn, cdc.front_of(slot));
            -- What was written down is locked: a wait for the front would be a deadlock with its caller.
            has_moved := cdc.apply_behind(plan, front_lsn, slice_size) and part = 'behind';
            exit when has_moved;
        end loop;
        if not has_moved then
            while cdc.fill_roll_up(slot) and part <> 'behind' loop
            end loop;
        end if;
    end if;

    return query
    with ready as (
        select
            plans.*,
            max(plans.applied_lsn) filter (where plans.is_ready) over () as front_lsn
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
                when ready.step is null or ready.engine = 'spark' or ready.retry_at > clock_timestamp() then false
                when ready.step = 'rebuild' then ready.from_lsn <= coalesce(ready.front_lsn, ready.from_lsn)
                when ready.applied_lsn = ready.front_lsn then is_more
                else ready.applied_lsn < coalesce(ready.front_lsn, ready.position_lsn)
            end,
            false
        )
    from ready
    union all
    select
        rolled.model_name,
        rolled.state,
        rolled.reason,
        rolled.remedy,
        rolled.applied_lsn,
        rolled.step is not null and coalesce(rolled.retry_at <= clock_timestamp(), true)
    from cdc.plan_roll_ups(slot) as rolled
    order by 1;
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
        ) and not exists (
            select from cdc.plan_roll_ups(slot) as rolled where rolled.step is not null or rolled.state = 'failed'
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
