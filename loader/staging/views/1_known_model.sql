-- What is known of each model of a slot, a row each: what dbt has installed, how far it is, and which baseline there is
-- for it. Nothing is judged here; judged_model does.
--
-- Each declaration is what compile_query made of a query: `registered` of the model that is followed, which is another
-- one of a copy, `compiled` of the model itself, `built_by` that of the rows in the table, `counted_by` that of the
-- baseline.
create or replace view cdc.known_model as
select
    installed.slot_name,
    installed.relation,
    installed.model_name,
    log.start_lsn,
    log.position_lsn,
    log.system_identifier,
    case when applied.is_former then applied.declaration else registered_model.declaration end as registered,
    applied.declaration as compiled,
    applied.is_former,
    (registered_model.declaration = installed.declaration) as is_installed,
    registered_model.relation_schema || '.' || registered_model.relation_name as original,
    applied.routine,
    applied.table_nos,
    applied.ordinals,
    installed.is_refresh_asked,
    installed.error,
    installed.seed_error,
    installed.seed_retry_at,
    installed.remedy as error_remedy,
    installed.is_locked,
    installed.retry_at,
    installed.engine,
    installed.xmin as installed_version,
    mark.applied_lsn,
    mark.declaration as built_by,
    mark.baseline_id as built_on,
    mark.lost_lsn,
    mark.major_version,
    mark.xmin as watermark_version,
    baseline.baseline_id,
    baseline.declaration as counted_by,
    baseline.snapshot_lsn,
    baseline.system_identifier as baseline_system,
    -- Where a rebuild begins.
    coalesce(baseline.snapshot_lsn, log.start_lsn) as base_lsn,
    found.held_lsn,
    -- What happened to its tables where the log holds them only from then on.
    (
        select string_agg(logged.table_schema || '.' || logged.table_name || ' ' || logged.gap_event, '; ')
        from cdc.logged_table as logged
        where
            logged.slot_name = registered_model.slot_name
            and logged.gap_lsn = found.held_lsn
            and registered_model.needed ? (logged.table_schema || '.' || logged.table_name)
    ) as gap_event,
    (
        select logged.lacks
        from cdc.logged_table as logged
        where
            logged.slot_name = registered_model.slot_name
            and logged.lacks is not null
            and registered_model.needed ? (logged.table_schema || '.' || logged.table_name)
        order by logged.table_schema, logged.table_name
        limit 1
    ) as lacks,
    found.gone_columns,
    found.other_slot
from cdc.installed_model as installed
inner join cdc.slot_position as log on log.slot_name = installed.slot_name
inner join cdc.registered_model
    on
        registered_model.slot_name = installed.slot_name
        and registered_model.model_name = installed.model_name
left join cdc.model_watermark as mark
    on mark.slot_name = installed.slot_name and mark.relation = installed.relation
left join cdc.baseline
    on baseline.slot_name = installed.slot_name and baseline.model_name = installed.model_name
-- A query that has changed waits for its baseline, and the one by which the rows were counted goes on; so does a copy
-- where one of the two has changed.
cross join lateral (
    select
        chosen.is_former,
        case when chosen.is_former then mark.declaration else installed.declaration end as declaration,
        case when chosen.is_replaced then installed.former ->> 'routine' else installed.routine end as routine,
        case when chosen.is_replaced then installed.former_table_nos else installed.table_nos end as table_nos,
        case when chosen.is_replaced then installed.former_ordinals else installed.ordinals end as ordinals
    from (
        select
            known.is_former,
            known.is_former and mark.declaration <> installed.declaration as is_replaced
        from (
            select coalesce(
                mark.declaration in (installed.declaration, installed.former -> 'declaration')
                and mark.baseline_id = baseline.baseline_id
                and (mark.declaration <> registered_model.declaration or mark.declaration <> installed.declaration),
                false
            ) as is_former
            -- Here, below and of chosen: without it the server would compare the declarations for each column that is
            -- named.
            limit all offset 0
        ) as known
        limit all offset 0
    ) as chosen
    limit all offset 0
) as applied
cross join lateral (
    select
        -- From which position on the log holds all that it needs; null where something is not followed yet.
        cdc.held_since(
            registered_model.slot_name,
            case when applied.is_former then cdc.needed_columns(applied.declaration) else registered_model.needed end
        ) as held_lsn,
        cdc.find_gone(
            registered_model.slot_name,
            case when applied.is_former then cdc.needed_columns(applied.declaration) else registered_model.needed end
        ) as gone_columns,
        cdc.other_slot(installed.slot_name, installed.relation, installed.model_name) as other_slot
    -- Without it the server would call the functions again wherever a view above names a column.
    limit all offset 0
) as found;
