-- One model is brought to a position: as a whole, or not at all with the error written down.
-- Runs with search_path set to the staging schema.

-- Lock models that are to be brought to a position, and see that their plans still hold. The error WL001 means
-- that somebody else changes one of them at this moment: the next apply takes it.
create function begin_models(plans model_plan[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    plan cdc.model_plan;
begin
    foreach plan in array plans loop
        if not pg_try_advisory_xact_lock(cdc.lock_key('model', plan.model_name)) then
            raise exception 'another session builds it' using errcode = 'WL001';
        end if;
    end loop;
    -- Before the locks dbt may have installed one again, or somebody else applied the same changes.
    if exists (
        select
        from unnest(plans) as planned
        left join cdc.installed_model as installed
            on installed.slot_name = planned.slot_name and installed.model_name = planned.model_name
        left join cdc.model_watermark as mark
            on mark.slot_name = planned.slot_name and mark.model_name = planned.model_name
        where
            (
                installed.declaration, installed.routine, installed.table_nos, installed.places, installed.engine,
                installed.is_refresh_asked, mark.applied_lsn
            ) is distinct from (
                planned.declaration, planned.routine, planned.table_nos, planned.places, planned.engine,
                planned.is_refresh_asked, planned.applied_lsn
            )
            or planned.step = 'add'
            and (mark.baseline_id, mark.declaration) is distinct from (planned.baseline_id, planned.declaration)
    ) then
        raise exception 'another session has changed it meanwhile' using errcode = 'WL001';
    end if;
end
$$;

-- Start a model from its baseline.
create function start_rebuild(plan model_plan, to_lsn pg_lsn) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    result cdc.outcome;
begin
    result := cdc.run_step(
        plan,
        case when plan.applied_lsn is null and plan.baseline_id is null and not plan.is_refresh_asked
            then 'begin' else 'rebuild' end,
        truncated => cdc.truncated_tables(plan.slot_name, plan.from_lsn, to_lsn)
    );
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
            -- Of a model that was never built, a seed from an archive has restored them.
            or exists (
                select from cdc.model_watermark as mark
                where
                    mark.slot_name = plan.slot_name
                    and mark.model_name = plan.model_name
                    and mark.declaration is distinct from plan.declaration
            )
        );
end
$$;

-- Read a model's changes up to to_lsn in parts of chunk_size, and give each part to a step of its routine.
create function step_through(
    plan model_plan, to_lsn pg_lsn, step text, chunk_size bigint,
    out rejected_lsn pg_lsn, out left_out jsonb
)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    result cdc.outcome;
    first_lsn pg_lsn := plan.from_lsn;
    first_ordinal bigint := 0;
    end_lsn pg_lsn;
    end_ordinal bigint;
    is_last boolean := false;
begin
    left_out := plan.left_out;
    while not is_last loop
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
        result := cdc.run_step(
            plan,
            step,
            cdc.read_changes(
                plan.reader, plan.slot_name, plan.from_lsn, to_lsn,
                first_lsn, first_ordinal, end_lsn, end_ordinal, step = 'list'
            )
        );
        rejected_lsn := greatest(rejected_lsn, result.rejected_lsn);
        left_out := cdc.add_left_out(left_out, result.left_out);
        first_lsn := end_lsn;
        first_ordinal := end_ordinal;
    end loop;
end
$$;

-- List what could not be counted, and move the watermarks to to_lsn.
create function end_models(plans model_plan[], to_lsn pg_lsn, chunk_size bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    plan cdc.model_plan;
    moved_count bigint;
begin
    foreach plan in array plans loop
        if plan.rejected_lsn is not null then
            -- Change by change now.
            perform cdc.step_through(plan, to_lsn, 'list', chunk_size);
        end if;
        if plan.error is not null or plan.is_refresh_asked then
            update cdc.installed_model as stored
            set
                is_refresh_asked = stored.is_refresh_asked and plan.step <> 'rebuild',
                error = null, remedy = null, failures = 0, retry_at = null
            where stored.slot_name = plan.slot_name and stored.model_name = plan.model_name;
        end if;
    end loop;

    insert into cdc.model_watermark (
        model_name, slot_name, applied_lsn, baseline_id, declaration, rejected_lsn, left_out
    )
    select
        planned.model_name,
        planned.slot_name,
        to_lsn,
        planned.baseline_id,
        planned.declaration,
        greatest(
            planned.rejected_lsn,
            case
                when planned.step = 'add' then mark.rejected_lsn
                when exists (
                    select from cdc.baseline_rejection as rejected
                    where rejected.slot_name = planned.slot_name and rejected.fact_name = planned.fact_name
                ) then planned.snapshot_lsn - 1
            end
        ),
        planned.left_out
    from unnest(plans) as planned
    inner join cdc.slot_position as log on log.slot_name = planned.slot_name
    left join cdc.baseline
        on baseline.slot_name = planned.slot_name and baseline.fact_name = planned.fact_name
    left join cdc.model_watermark as mark
        on mark.slot_name = planned.slot_name and mark.model_name = planned.model_name
    -- Nothing of this is locked: what was read above may be of another seed or of a log that was pruned.
    where
        log.start_lsn <= planned.from_lsn
        and baseline.baseline_id is not distinct from planned.baseline_id
    on conflict on constraint model_watermark_pkey do update
    set
        applied_lsn = excluded.applied_lsn,
        baseline_id = excluded.baseline_id,
        declaration = excluded.declaration,
        rejected_lsn = excluded.rejected_lsn,
        left_out = excluded.left_out,
        moved_at = now();
    get diagnostics moved_count = row_count;
    if moved_count < cardinality(plans) then
        raise exception 'the change log was pruned or a baseline replaced meanwhile' using errcode = 'WL001';
    end if;
end
$$;

create type computed_batch as (
    id text,
    attempts bigint[],
    row_count bigint,
    rejected_lsn pg_lsn,
    left_out jsonb
);

comment on type computed_batch is 'The rows of computed_group that are one batch, and what it could not count.';

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

-- Bring models from their positions to to_lsn in a subtransaction, and return which succeeded: where one fails they
-- are tried again apart, so that it is left behind alone. `batch` are the changes in between, for this step of the
-- routines, where the caller has read them already; or Spark has `computed` what they add. An error is written
-- down. A lock that somebody holds is tried again each second, anything else ever more seldom, so that it does not
-- slow the other models.
create function try_models(
    plans model_plan[], to_lsn pg_lsn, step text, batch change[], slice_size bigint,
    computed computed_batch default null
) returns text[]
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    plan cdc.model_plan;
    moved cdc.model_plan[] := '{}';
    names text[] := '{}';
    result cdc.outcome;
    code text;
    message text;
    hint text;
begin
    perform cdc.begin_models(plans);
    foreach plan in array plans loop
        names := names || plan.model_name;
        if plan.step = 'add' and cdc.is_truncated_with_others(plan, to_lsn) then
            update cdc.installed_model as stored
            set is_refresh_asked = true
            where stored.slot_name = plan.slot_name and stored.model_name = plan.model_name;
            continue;
        elsif plan.step = 'rebuild' then
            perform cdc.start_rebuild(plan, to_lsn);
        end if;
        if step is not null then
            result := cdc.run_step(plan, step, batch);
            plan.rejected_lsn := result.rejected_lsn;
            plan.left_out := cdc.add_left_out(plan.left_out, result.left_out);
        elsif computed.id is not null then
            perform cdc.merge_computed(plan, to_lsn, computed);
            plan.rejected_lsn := computed.rejected_lsn;
            plan.left_out := cdc.add_left_out(plan.left_out, computed.left_out);
        else
            select done.rejected_lsn, done.left_out into plan.rejected_lsn, plan.left_out
            from cdc.step_through(
                plan, to_lsn, case plan.step when 'rebuild' then 'refill' else 'add' end, slice_size
            ) as done;
        end if;
        moved := moved || plan;
    end loop;
    perform cdc.end_models(moved, to_lsn, slice_size);
    return names;
exception
    when others then
        get stacked diagnostics
            code = returned_sqlstate, message = message_text, hint = pg_exception_hint;
        names := '{}';
        if cardinality(plans) > 1 then
            foreach plan in array plans loop
                names := names || cdc.try_models(array[plan], to_lsn, step, batch, slice_size);
            end loop;
            return names;
        elsif code = 'WL001' then
            return names;
        end if;
        plan := plans[1];
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
        where stored.slot_name = plan.slot_name and stored.model_name = plan.model_name;
        return names;
end
$$;

-- Add what a Spark job has computed of a model's changes from from_lsn up to to_lsn. Only where the model is
-- declared as the job read it, stands on this baseline and begins at from_lsn: so whatever is killed, repeated
-- or done by two at once, each change counts once. Return whether the model is at to_lsn; if not, its plan is
-- another one now, or an error is in fact_state.
create function apply_computed(
    slot text, model text, declaration jsonb, baseline_id uuid, from_lsn pg_lsn, to_lsn pg_lsn,
    computed computed_batch
) returns boolean
language plpgsql security definer
-- As apply sets them.
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
    plan cdc.model_plan;
begin
    select ready.* into plan
    from cdc.plan_models(slot) as ready
    where ready.model_name = model and ready.engine = 'spark' and ready.step is not null;
    if (plan.declaration, plan.baseline_id, plan.from_lsn)
        is distinct from (apply_computed.declaration, apply_computed.baseline_id, apply_computed.from_lsn)
        or cdc.try_models(array[plan], to_lsn, null, null, cdc.slice_size(), computed) = '{}'
    then
        return false;
    end if;
    perform pg_notify('waltally', json_build_object('slot', slot, 'position', to_lsn)::text);
    -- Not so where a TRUNCATE makes it start from its baseline.
    return exists (
        select from cdc.model_watermark as mark
        where mark.slot_name = slot and mark.model_name = model and mark.applied_lsn = to_lsn
    );
end
$$;

-- Give what a Spark job has computed to a model's routine, write down the archived deletes, and forget both.
create function merge_computed(plan model_plan, to_lsn pg_lsn, batch computed_batch) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    truncated text[];
    changes cdc.change[];
    found_count bigint;
begin
    -- Others may write rows of the same model beside this: each statement looks for its own alone.
    select count(*) into found_count
    from cdc.computed_group as computed
    where
        computed.slot_name = plan.slot_name
        and computed.model_name = plan.model_name
        and computed.batch = batch.id
        and computed.attempt = any (batch.attempts);
    if found_count <> batch.row_count then
        raise exception 'what Spark computed is gone, or another job computes the same' using errcode = 'WL001';
    end if;

    truncated := cdc.truncated_tables(plan.slot_name, plan.from_lsn, to_lsn);
    if truncated is not null then
        delete from cdc.archived_delete as old
        where
            old.slot_name = plan.slot_name
            and old.model_name = plan.model_name
            and old.part in (
                select declared.value ->> 'name'
                from jsonb_array_elements(plan.declaration -> 'tables') as declared (value)
                where (declared.value ->> 'schema') || '.' || (declared.value ->> 'table') = any (truncated)
            );
        if plan.step = 'add' then
            perform cdc.run_step(plan, 'merge', null, truncated);
        end if;
    end if;
    for changes in
        select array_agg((null, null, null, null, null, null, one.sums, one.dimensions, null, null)::cdc.change)
        from (
            select
                computed.sums,
                computed.dimensions,
                (row_number() over () - 1) / cdc.slice_size() as place
            from cdc.computed_group as computed
            where
                computed.slot_name = plan.slot_name
                and computed.model_name = plan.model_name
                and computed.batch = batch.id
                and computed.attempt = any (batch.attempts)
                and computed.part is null
        ) as one
        group by one.place
    loop
        perform cdc.run_step(plan, 'merge', changes);
    end loop;

    insert into cdc.archived_delete (slot_name, model_name, part, commit_lsn, dimensions, measures)
    select
        plan.slot_name,
        plan.model_name,
        computed.part,
        '0/0'::pg_lsn + computed.commit_lsn,
        computed.dimensions,
        computed.sums::numeric[]
    from cdc.computed_group as computed
    where
        computed.slot_name = plan.slot_name
        and computed.model_name = plan.model_name
        and computed.batch = batch.id
        and computed.attempt = any (batch.attempts)
        and computed.part is not null;
    delete from cdc.computed_group as computed
    where computed.slot_name = plan.slot_name and computed.model_name = plan.model_name;
end
$$;

-- Whoever may call these acts on the facts with the rights of their owners.
revoke execute on function apply_computed(text, text, jsonb, uuid, pg_lsn, pg_lsn, computed_batch) from public;
