-- What a baseline of these models must not be older than, and the reason and the remedy where it is: the log
-- and each table in it, which a model that goes on with the log must not be older than either, and the stored
-- baseline. A table that is not followed yet will be from the slot's position on.
create or replace function cdc.baseline_limits(slot text, models text[])
returns table (from_lsn pg_lsn, kind text, reason text, remedy text)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select
        log.start_lsn,
        'log',
        format('the change log, which starts at %s: the changes between are in neither', log.start_lsn),
        'run the seed again'
    from cdc.slot_position as log
    where log.slot_name = slot
    union all
    select
        max(baseline.snapshot_lsn),
        'baseline',
        format('the stored baseline, which is of %s', max(baseline.snapshot_lsn)),
        'nothing is needed: the newer baseline stays'
    from cdc.baseline
    where baseline.slot_name = slot and baseline.model_name = any (models)
    having count(*) > 0
    union all
    select
        max(held.from_lsn),
        'table',
        format('the changes of %s in the log, which begin at %s', need.key, max(held.from_lsn)),
        -- A newer snapshot counts.
        ''
    from cdc.registered_model
    inner join cdc.slot_position as log on log.slot_name = registered_model.slot_name
    cross join lateral jsonb_each(registered_model.needed) as need
    cross join lateral (
        select coalesce(
            cdc.held_since(registered_model.slot_name, jsonb_build_object(need.key, need.value)), log.position_lsn
        )
    ) as held (from_lsn)
    where registered_model.slot_name = slot and registered_model.model_name = any (models)
    group by need.key
    order by 2
$$;
