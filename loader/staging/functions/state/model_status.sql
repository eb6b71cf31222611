-- Each model of a slot as `loader status --json` has it, but what it has rejected. The name of a copy is its relation.
create or replace function cdc.model_status(slot text) returns table (model_name text, status json)
language plpgsql stable rows 10 set search_path = pg_catalog, pg_temp set jit = off as $$
#variable_conflict use_column
begin
    return query
    select
        model.model_name,
        json_build_object(
            'name', model.name,
            'relation', model.relation,
            'is_registered', model.name <> model.relation,
            'rows', (
                select greatest(pg_stat_get_live_tuples(c.oid), c.reltuples::bigint, 0)
                from pg_class as c
                inner join pg_namespace as n on n.oid = c.relnamespace
                where n.nspname || '.' || c.relname = model.relation
                limit 1
            ),
            'state', model.state,
            'reason', model.reason,
            'remedy', model.remedy,
            'engine', model.engine,
            'is_finding', model.is_finding and model.name <> model.relation,
            'applied_lsn', model.applied_lsn,
            'moved_at', model.moved_at,
            'lag_bytes', case when model.waits_since is null then 0
                else greatest(model.position_lsn - model.applied_lsn, 0) end,
            -- A source that was quiet for long is not behind for long.
            'lag_seconds', coalesce(greatest(
                case when model.waits_since is not null
                    then cdc.seconds_since(greatest(model.moved_at, model.waits_since)) end,
                cdc.seconds_since(model.asked_at)
            ), 0.0),
            'exact_as_of', model.exact_as_of,
            'exact_age_seconds', cdc.seconds_since(model.exact_as_of),
            'is_unbuilt', coalesce(dependent.is_unbuilt, (
                select bool_and(installed.is_unbuilt) from cdc.installed_model as installed
                where installed.relation = model.relation
            ), false),
            'rejected_lsn', own.rejected_lsn,
            'built_on', own.baseline_id,
            'audited_at', coalesce(own.audited_at, dependent.audited_at),
            'audited_age_seconds', cdc.seconds_since(coalesce(own.audited_at, dependent.audited_at)),
            'kind', cdc.describe_model(coalesce(dependent.declaration, own.declaration, registered.declaration)),
            'baseline', case when baseline.baseline_id is not null then json_build_object(
                'id', baseline.baseline_id,
                'snapshot_lsn', baseline.snapshot_lsn,
                'counted_at', baseline.counted_at,
                'age_seconds', cdc.seconds_since(baseline.counted_at)
            ) end,
            'held_by', case when model.waits_since is not null then (
                select json_build_object(
                    'pid', session.pid, 'application', session.application_name, 'role', session.usename,
                    'state', session.state
                )
                from pg_stat_activity as session
                where
                    session.pid = coalesce(
                        cdc.holder_of(cdc.lock_key('slot', slot)), cdc.holder_of(cdc.lock_key('model', model.relation))
                    )
                    -- A loader's own.
                    and session.application_name <> 'waltally apply'
            ) end
        )
    from cdc.model_progress(slot) as model
    left join cdc.registered_model as registered
        on registered.slot_name = slot and registered.model_name = model.model_name and model.inputs is null
    left join cdc.model_watermark as own on own.slot_name = slot and own.relation = model.relation
    left join cdc.dependent_model as dependent on dependent.relation = model.relation
    left join cdc.baseline
        on baseline.slot_name = slot and baseline.model_name = model.model_name and model.inputs is null
    order by model.model_name, model.relation;
end
$$;
