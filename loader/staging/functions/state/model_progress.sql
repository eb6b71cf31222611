-- How far each model of a slot is, and until when everything that was committed is in it: exact_as_of, which is null
-- where nothing was applied yet, and of a model over models that does not follow. `name` is that of model_state;
-- `inputs` are the models that it is made of, null of a model over sources; waits_since is when the oldest change that
-- is not applied was staged, asked_at when it was asked to be filled.
create or replace function cdc.model_progress(slot text)
returns table (
    name text, relation text, model_name text, inputs text[], state text, reason text, remedy text, engine text,
    is_finding boolean, position_lsn pg_lsn, applied_lsn pg_lsn, moved_at timestamptz,
    waits_since timestamptz, asked_at timestamptz, exact_as_of timestamptz
)
language plpgsql stable security definer rows 10 set search_path = pg_catalog, pg_temp set jit = off as $$
#variable_conflict use_column
begin
    perform cdc.see_partitions();
    return query
    with sources as materialized (
        select * from cdc.explain_models(slot)
    ),

    models as (
        select
            relation, model_name, null::text[] as inputs, state, reason, remedy, engine, is_finding
        from sources
        union all
        select relation, model_name, inputs, state, reason, remedy, engine, is_finding
        from cdc.plan_dependents(slot)
    )

    select
        cdc.command_name(slot, models.relation, models.model_name, models.inputs),
        models.relation,
        models.model_name,
        models.inputs,
        models.state,
        models.reason,
        models.remedy,
        models.engine,
        models.is_finding,
        log.position_lsn,
        mark.applied_lsn,
        mark.moved_at,
        waiting.staged_at,
        asked.asked_at,
        case
            when models.inputs is null or not models.is_finding and asked.asked_at is null
                then cdc.exact_until(slot, mark.exact_lsn, mark.is_stopped)
        end
    from cdc.slot_position as log
    cross join models
    -- A model over models is as far as what it reads.
    cross join lateral (
        select
            min(own.applied_lsn) as applied_lsn,
            min(coalesce(own.lost_lsn, own.applied_lsn)) as exact_lsn,
            (array_agg(own.moved_at order by own.applied_lsn))[1] as moved_at,
            bool_or(sources.step is distinct from 'add') as is_stopped
        from cdc.model_watermark as own
        inner join sources on sources.relation = own.relation
        where own.slot_name = slot and own.relation = any (models.inputs || models.relation)
    ) as mark
    cross join lateral (
        select min(to_fill.asked_at) as asked_at from cdc.to_fill
        where to_fill.relation = any (models.inputs || models.relation)
    ) as asked
    left join lateral (
        select staged.staged_at from cdc.change_log as staged
        where staged.slot_name = slot and staged.commit_lsn >= mark.applied_lsn
        order by staged.slot_name, staged.commit_lsn, staged.ordinal
        limit 1
    ) as waiting on true
    where log.slot_name = slot;
end
$$;
