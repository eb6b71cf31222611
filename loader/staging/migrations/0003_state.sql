-- The state of each model is decided here, once: dbt, loader and Spark ask fact_state and print its
-- sentences. Runs with search_path set to the staging schema.

-- From which position on the log holds all columns of fact.needed; null where something is not followed yet.
create function held_since(slot text, needed jsonb) returns pg_lsn
language plpgsql stable parallel safe set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select case when bool_and(held.since is not null) then max(held.since) end
        from jsonb_each(needed) as need
        left join cdc.logged_table as logged
            on logged.slot_name = slot and logged.table_schema || '.' || logged.table_name = need.key
        cross join lateral (
            select least(
                (logged.held_since ->> own.name)::pg_lsn, (logged.held_since ->> '*')::pg_lsn
            ) as since
            from jsonb_array_elements_text(need.value) as own (name)
            union all
            -- Only the number of its changes counts: any column tells since when they are logged.
            select min(any_column.value::pg_lsn)
            from jsonb_each_text(logged.held_since) as any_column
            having need.value = '[]'
        ) as held
    );
end
$$;

-- What a baseline of these facts must not be older than, and the reason and the remedy where it is: the log
-- and each table in it, which a fact that goes on with the log must not be older than either, and the stored
-- baseline. A table that is not followed yet will be from the slot's position on.
create function baseline_limits(slot text, facts text[])
returns table (from_lsn pg_lsn, kind text, reason text, remedy text)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select
        log.start_lsn,
        'log',
        format('the change log, which starts at %s: the changes between are in neither', log.start_lsn),
        'seed after `loader setup`'
    from cdc.slot_position as log
    where log.slot_name = slot
    union all
    select
        max(baseline.snapshot_lsn),
        'baseline',
        format('the stored baseline, which is of %s', max(baseline.snapshot_lsn)),
        'nothing is needed: the newer baseline stays'
    from cdc.baseline
    where baseline.slot_name = slot and baseline.fact_name = any (facts)
    having count(*) > 0
    union all
    select
        max(held.from_lsn),
        'table',
        format('the changes of %s in the log, which begin at %s', need.key, max(held.from_lsn)),
        'seed after `loader setup`, with `loader run` running'
    from cdc.fact
    inner join cdc.slot_position as log on log.slot_name = fact.slot_name
    cross join lateral jsonb_each(fact.needed) as need
    cross join lateral (
        select coalesce(
            cdc.held_since(fact.slot_name, jsonb_build_object(need.key, need.value)), log.position_lsn
        )
    ) as held (from_lsn)
    where fact.slot_name = slot and fact.fact_name = any (facts)
    group by need.key
    order by 2
$$;

create type model_plan as (
    slot_name text,
    model_name text,
    fact_name text,
    step text,
    is_ready boolean,
    from_lsn pg_lsn,
    position_lsn pg_lsn,
    applied_lsn pg_lsn,
    declaration jsonb,
    routine text,
    reader text,
    table_nos integer[],
    places integer[],
    is_refresh_asked boolean,
    baseline_id uuid,
    snapshot_lsn pg_lsn,
    left_out jsonb,
    error text,
    retry_at timestamptz,
    state text,
    reason text,
    remedy text,
    engine text,
    rejected_lsn pg_lsn
);

comment on type model_plan is
    'What the next apply, by its engine, does with a model: add the changes from from_lsn on; rebuild, which starts from the '
    'baseline; or nothing, because of the reason. fact_state is its short form.';
comment on column model_plan.rejected_lsn is 'The newest change that could not be counted, once it is carried out.';

-- The plan of each model of a slot. `offset 0`: else the planner would compute what a case asks for once for
-- each place where it is used.
create function plan_models(slot text) returns setof model_plan
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    with models as (
        select
            fact.slot_name,
            fact.fact_name,
            fact.relation_schema || '.' || fact.relation_name as model_name
        from cdc.fact
        where fact.slot_name = slot
        union
        select installed.slot_name, installed.fact_name, installed.model_name
        from cdc.installed_model as installed
        where installed.slot_name = slot
    ),

    known as (
        select
            models.slot_name,
            models.model_name,
            models.fact_name,
            log.start_lsn,
            log.pruned_from_lsn,
            log.position_lsn,
            log.system_identifier,
            fact.declaration as registered,
            installed.declaration as compiled,
            installed.routine,
            installed.reader,
            installed.table_nos,
            installed.places,
            installed.is_refresh_asked is true as is_refresh_asked,
            installed.error,
            installed.remedy as error_remedy,
            installed.retry_at,
            coalesce(installed.engine, 'database') as engine,
            mark.applied_lsn,
            mark.declaration as built_by,
            mark.baseline_id as built_on,
            baseline.baseline_id,
            baseline.declaration as counted_by,
            baseline.snapshot_lsn,
            baseline.system_identifier as baseline_system,
            baseline.left_out as baseline_left_out,
            mark.left_out as left_out,
            cdc.held_since(fact.slot_name, fact.needed) as held_lsn,
            exists (
                select from cdc.baseline as other where other.slot_name = models.slot_name
            ) as has_any_baseline,
            case
                when not jsonb_path_exists(coalesce(fact.declaration, installed.declaration), '$.dimensions[*] ? (@.kind == "slot")')
                    then (
                        select min(other.slot_name)
                        from (
                            select marked.slot_name from cdc.model_watermark as marked
                            where marked.model_name = models.model_name
                            union all
                            select registered.slot_name from cdc.fact as registered
                            where registered.fact_name = models.fact_name
                        ) as other
                        where other.slot_name <> models.slot_name
                    )
            end as other_slot,
            case
                when mark.declaration is distinct from installed.declaration
                    then (
                        select min(other.slot_name)
                        from cdc.model_watermark as other
                        left join cdc.fact as registered
                            on
                                registered.slot_name = other.slot_name
                                and registered.fact_name = models.fact_name
                                and registered.declaration = installed.declaration
                        left join cdc.baseline as counted
                            on
                                counted.slot_name = registered.slot_name
                                and counted.fact_name = registered.fact_name
                                and counted.declaration = installed.declaration
                        where
                            other.model_name = models.model_name
                            and other.slot_name <> models.slot_name
                            and other.declaration is distinct from installed.declaration
                            and counted.slot_name is null
                    )
            end as unready_slot
        from models
        inner join cdc.slot_position as log on log.slot_name = models.slot_name
        left join cdc.fact
            on fact.slot_name = models.slot_name and fact.fact_name = models.fact_name
        left join cdc.installed_model as installed
            on installed.slot_name = models.slot_name and installed.model_name = models.model_name
        left join cdc.model_watermark as mark
            on mark.slot_name = models.slot_name and mark.model_name = models.model_name
        left join cdc.baseline
            on baseline.slot_name = models.slot_name and baseline.fact_name = models.fact_name
        offset 0
    ),

    decided as (
        select
            known.*,
            (
                is_refresh_asked
                or applied_lsn is null
                or built_by is distinct from registered
                or baseline_id is distinct from built_on
            ) as is_rebuild,
            base_lsn,
            position_lsn > base_lsn and coalesce(held_lsn > base_lsn, true) as is_base_lacking,
            '`spark-submit spark/seed.py --fact ' || fact_name || '`' as seed
        from known
        cross join lateral coalesce(snapshot_lsn, start_lsn) as base_lsn
        offset 0
    ),

    -- The step, the state, the reason and the remedy, which is another seed where nothing else is said.
    told as (
        select
            *,
            case
                when compiled is null or table_nos is null
                    then array[null, 'waits', 'dbt has not installed it', '`dbt build`']
                when registered is null
                    then array[null, 'waits', 'it is not registered for slot ' || slot_name, '`loader setup`']
                when compiled <> registered then array[
                    null, 'waits', 'it declares something else than loader setup registered for slot ' || slot_name,
                    '`loader setup`, then `dbt build`'
                ]
                when other_slot is not null then array[
                    null, 'failed',
                    format('it is built from the slot %s; a second slot would mix its counts with these', other_slot),
                    format(
                        'set LOADER_SLOT=%1$s, or give the fact a dimension {''from'': ''slot''}; to move it to %2$s for good: '
                        'delete from %6$smodel_watermark where model_name = %3$L and slot_name = %1$L; '
                        'delete from %6$sinstalled_model where model_name = %3$L and slot_name = %1$L; '
                        'delete from %6$sarchived_delete where model_name = %3$L and slot_name = %1$L; '
                        'delete from %6$sfact where fact_name = %4$L and slot_name = %1$L; -- then %5$s',
                        other_slot, slot_name, model_name, fact_name, seed, 'cdc.'
                    )
                ]
                when baseline_id is null and built_on is not null and not is_refresh_asked then array[
                    null, 'failed', 'the baseline that it was built on is gone',
                    seed || '; to do without a baseline, `dbt build --full-refresh`'
                ]
                when not is_rebuild and applied_lsn > greatest(position_lsn, snapshot_lsn) then array[
                    null, 'failed',
                    format('it holds changes up to %s, the change log only up to %s', applied_lsn, position_lsn)
                ]
                when not is_rebuild and applied_lsn < start_lsn then array[
                    null, 'failed',
                    format('the change log starts at %s, it holds changes only up to %s', start_lsn, applied_lsn)
                ]
                when not is_rebuild and position_lsn > applied_lsn and coalesce(held_lsn > applied_lsn, true) then array[
                    null, 'waits',
                    format('the change log does not hold everything that it needs from %s on', applied_lsn),
                    'see that `loader run` runs, then ' || seed
                ]
                when not is_rebuild then array[
                    'add', 'follows',
                    case
                        when baseline_id is null and start_lsn < position_lsn
                            then 'it has no baseline, so rows from before the slot are missing and its counts may be below zero'
                    end
                ]
                -- A rebuild needs a baseline of this declaration, unless the log alone holds everything.
                when baseline_id is not null and counted_by is distinct from registered
                    then array[null, 'waits', 'its baseline was counted by another declaration']
                when unready_slot is not null then array[
                    null, 'waits',
                    format('its declaration has changed, and slot %s is not set up and seeded for it', unready_slot),
                    format(
                        '`loader setup --slot %1$s`, then `LOADER_SLOT=%1$s spark-submit spark/seed.py --fact %2$s`',
                        unready_slot, fact_name
                    )
                ]
                when baseline_id is null and pruned_from_lsn is not null and built_by is not distinct from registered
                    then array[
                        null, 'failed',
                        format('the change log from %s to %s is pruned, and no baseline holds it', pruned_from_lsn, start_lsn)
                    ]
                when baseline_id is null and has_any_baseline and (built_by is distinct from registered or is_base_lacking)
                    then array[null, 'waits', 'other facts of the slot have a baseline and it has none']
                when baseline_id is null and pruned_from_lsn is not null then array[
                    null, 'waits', format('it has no baseline, and the change log before %s is pruned', start_lsn)
                ]
                when baseline_system <> system_identifier
                    then array[null, 'failed', 'its baseline was taken from another cluster than the slot reads']
                when snapshot_lsn < start_lsn then array[
                    null, 'failed',
                    format('the change log starts at %s, after its baseline at %s', start_lsn, snapshot_lsn)
                ]
                when is_base_lacking then array[
                    null, 'waits', case
                        when baseline_id is not null then format(
                            'its baseline is at %s, and the change log holds its tables %s',
                            snapshot_lsn, coalesce('only from ' || held_lsn || ' on', 'not yet')
                        )
                        when held_lsn is null
                            then 'it has no baseline, and the change log does not hold all of its tables yet'
                        else format('it has no baseline, and the change log holds its tables only from %s on', held_lsn)
                    end,
                    case
                        when baseline_id is null and held_lsn is null then 'see that `loader run` runs, then ' || seed
                    end
                ]
                else array[
                    'rebuild', 'waits',
                    case
                        when applied_lsn is null then 'it was not built yet'
                        when built_by is distinct from registered then 'its rows were counted by another declaration'
                        when is_refresh_asked then 'dbt asked for a full refresh'
                        else 'it was not built on its newest baseline yet'
                    end,
                    case engine when 'spark' then '`spark-submit spark/apply.py`' else '`loader run --build` or `dbt build`' end
                ]
            end as told
        from decided
        offset 0
    )

    select
        slot_name,
        model_name,
        fact_name,
        told[1] as step,
        -- Whether it moves with the others: not one whose baseline is ahead of the log, for the others would
        -- pass over what is staged in between.
        coalesce(told[1] = 'add' and engine = 'database' and error is null and applied_lsn <= position_lsn, false)
            as is_ready,
        case when told[1] = 'add' then applied_lsn else base_lsn end as from_lsn,
        position_lsn,
        applied_lsn,
        registered as declaration,
        routine,
        reader,
        table_nos,
        places,
        is_refresh_asked,
        baseline_id,
        snapshot_lsn,
        case when told[1] = 'add' then left_out else baseline_left_out end,
        error,
        retry_at,
        case when is_failed then 'failed' else told[2] end as state,
        case when is_failed then error else told[3] end as reason,
        case
            when is_failed then coalesce(error_remedy, seed)
            when told[3] is not null then coalesce(told[4], seed)
        end as remedy,
        engine,
        null::pg_lsn
    from told
    cross join lateral (select error is not null and told[1] is not null) as now (is_failed);
end
$$;

-- The state of each roll-up that is made of models of a slot. It has what its inputs have, so it is at their
-- position as long as they are at one. step is fill where the next apply fills it.
create function plan_roll_ups(slot text)
returns table (
    model_name text, fact_name text, step text, routine text, inputs text[], applied_lsn pg_lsn,
    retry_at timestamptz, state text, reason text, remedy text
)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with plans as materialized (
        select * from cdc.plan_models(slot)
    ),

    kept as (
        select
            rolled.model_name,
            rolled.is_due or rolled.trigger_count > (
                select count(*)
                from pg_proc as p
                inner join pg_trigger as t on t.tgfoid = p.oid and t.tgenabled = 'A'
                where
                    p.pronamespace = fill.pronamespace
                    and p.prosecdef
                    and starts_with(p.proname, left(fill.proname, -4) || 'keep_')
            ) as is_due
        from cdc.roll_up as rolled
        left join pg_proc as fill on fill.oid = to_regprocedure(rolled.routine)
    ),

    found as (
        select
            rolled.model_name,
            rolled.fact_name,
            rolled.routine,
            rolled.inputs,
            rolled.retry_at,
            rolled.error,
            bool_or(own.is_due) as is_due,
            min(plans.applied_lsn) as applied_lsn,
            max(plans.applied_lsn) as newest_lsn,
            bool_or(plans.engine = 'spark') as is_of_spark,
            min(plans.model_name) filter (where plans.state <> 'follows') as waits_for,
            min(other.model_name) filter (where other.is_due) as filled_after
        from cdc.roll_up as rolled
        inner join kept as own on own.model_name = rolled.model_name
        cross join lateral unnest(rolled.inputs) as input (name)
        left join plans on plans.model_name = input.name
        left join kept as other on other.model_name = input.name
        group by rolled.model_name
        having count(plans.model_name) > 0
    )

    select
        found.model_name,
        found.fact_name,
        case
            when found.is_due and found.waits_for is null and found.filled_after is null then 'fill'
        end,
        found.routine,
        found.inputs,
        found.applied_lsn,
        found.retry_at,
        case
            when found.error is not null then 'failed'
            when found.is_due or found.filled_after is not null or found.waits_for is not null
                or found.applied_lsn < found.newest_lsn
                then 'waits'
            else 'follows'
        end,
        case
            when found.error is not null then found.error
            when found.waits_for is not null then format('%s, which it is made of, %s: %s', waiting.model_name, waiting.state, waiting.reason)
            when found.filled_after is not null then format('%s, which it is made of, is not filled yet', found.filled_after)
            when found.is_due then 'it is not filled yet'
            when found.applied_lsn < found.newest_lsn then format(
                'the models that it is made of are at different positions, from %s to %s', found.applied_lsn, found.newest_lsn
            )
        end,
        case
            when found.error is not null then '`dbt build` tries it at once'
            when found.waits_for is not null then waiting.remedy
            when found.is_of_spark and found.applied_lsn < found.newest_lsn then '`spark-submit spark/apply.py`'
            when found.is_due or found.filled_after is not null or found.applied_lsn < found.newest_lsn
                then '`loader run --build` or `dbt build`'
        end
    from found
    left join plans as waiting on waiting.model_name = found.waits_for
$$;

create view fact_state as
select plans.slot_name, plans.model_name, plans.state, plans.reason, plans.remedy, plans.applied_lsn
from slot_position as log
cross join lateral plan_models(log.slot_name) as plans
union all
select log.slot_name, plans.model_name, plans.state, plans.reason, plans.remedy, plans.applied_lsn
from slot_position as log
cross join lateral plan_roll_ups(log.slot_name) as plans;

comment on view fact_state is
    'Each model of each slot: it follows, waits or failed, why, and what helps.';
