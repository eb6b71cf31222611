-- The plan of each model of a slot. `offset 0`: else the planner would compute what a case asks for once for
-- each place where it is used.
create or replace function cdc.plan_models(slot text) returns setof cdc.model_plan
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
