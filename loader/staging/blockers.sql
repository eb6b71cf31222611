-- Why each partition of the change log is kept: a row for each reason, with the remedy where there is one.
-- `prune.py` adds what only its options tell. {0} is the staging schema; %(schema)s is its name in a remedy.
with part as (
    select * from jsonb_to_recordset(%(partitions)s)
        as part (name text, from_lsn pg_lsn, to_lsn pg_lsn)
),

slot as (
    select
        log.slot_name,
        log.start_lsn,
        log.position_lsn,
        log.moved_at,
        exists (
            select from {0}.baseline where baseline.slot_name = log.slot_name
        ) as has_baseline
    from {0}.slot_position as log
),

-- Those that the log of a slot has to hold. Whoever else needs a partition waits for the slot that writes to it.
held as (
    select
        part.*,
        slot.slot_name,
        slot.start_lsn,
        slot.position_lsn,
        slot.moved_at,
        slot.position_lsn < part.to_lsn as is_written
    from part
    inner join slot on slot.start_lsn < part.to_lsn
),

model as (
    select
        plans.*,
        exists (
            select from pg_class as c
            inner join pg_namespace as n on n.oid = c.relnamespace
            where n.nspname || '.' || c.relname = plans.relation
        ) as is_there,
        -- Its own baseline will be newer than all that is in the log by now.
        plans.snapshot_lsn is null and slot.has_baseline as awaits_seed,
        case
            when plans.applied_lsn is null or plans.step is not distinct from 'rebuild'
                then coalesce(plans.snapshot_lsn, slot.start_lsn)
            else plans.applied_lsn
        end as next_lsn
    from slot
    cross join lateral {0}.explain_models(slot.slot_name) as plans
),

reasons (name, slot_name, ordinal, reason, remedy) as (
    -- A slot that has not moved for a day may be one that nobody follows any more.
    select
        name,
        slot_name,
        1,
        case when moved_at > now() - interval '1 day'
            then concat('slot ', slot_name, ' still writes to it, and is at ', position_lsn)
            else concat(
                'slot ', slot_name, ' is at ', position_lsn, ', where it has been since ',
                to_char(moved_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI'), ' UTC, and may still write to it'
            )
        end,
        case when moved_at <= now() - interval '1 day' then concat(
            '`loader run --slot ', slot_name, '`; or, only where its source is gone for good: `loader teardown --slot ',
            slot_name, '`'
        ) end
    from held
    where is_written
    union all
    select
        held.name,
        held.slot_name,
        2,
        concat(
            model.relation,
            case when not model.is_there then ', which does not exist,' end,
            case
                when model.applied_lsn is null then ' has applied nothing of slot ' || held.slot_name
                else ' has applied slot ' || held.slot_name || ' only up to ' || model.applied_lsn
            end,
            ': ' || model.reason
        ),
        concat(
            coalesce(model.remedy, '`loader run --build` or `dbt build`'),
            case when not model.is_there and model.applied_lsn is not null then (
                select concat('; or, if the model is gone for good: ', string_agg(concat(
                    'delete from ', %(schema)s, '.', name, ' where relation = ',
                    quote_literal(model.relation), ' and slot_name = ', quote_literal(held.slot_name), ';'
                ), ' '))
                from unnest('{{installed_model,model_watermark}}'::text[]) as name
            ) end
        )
    from held
    inner join model on model.slot_name = held.slot_name
    where not held.is_written and model.next_lsn < held.to_lsn and not (model.applied_lsn is null and model.awaits_seed)
    union all
    select
        held.name,
        held.slot_name,
        3,
        case
            when seed.is_one then concat('a seed of slot ', held.slot_name, ' counts at ', reader.applied_lsn)
            else concat('the reader ', reader.reader, ' has read slot ', held.slot_name, ' only up to ', reader.applied_lsn)
        end,
        case when seed.is_one then 'let it end' else concat(
            'let it read on; or, if it is gone for good: delete from ', %(schema)s, '.reader_position where slot_name = ',
            quote_literal(held.slot_name), ' and reader = ', quote_literal(reader.reader), ';'
        ) end
    from held
    inner join {0}.reader_position as reader on reader.slot_name = held.slot_name
    cross join lateral (select reader.reader = 'spark/seed.py' as is_one) as seed
    where
        not held.is_written
        and reader.applied_lsn < held.to_lsn
        -- One that was killed has left its row, and no lock.
        and (not seed.is_one or exists (
            select from {0}.installed_model as installed
            where
                installed.slot_name = held.slot_name
                and {0}.holder_of({0}.lock_key('seeding', installed.slot_name, installed.relation)) is not null
        ))
)

select name, reason, coalesce(remedy, '') from reasons order by name, slot_name, ordinal, reason
