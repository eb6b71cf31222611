-- Until when everything that was committed is in a model, or without a name in every model of the slot but copies: for
-- a page that says how fresh its numbers are. Null where nothing was applied yet, and of a model over models that does
-- not follow. The model has its name as in model_state.
create or replace function cdc.exact_as_of(slot text, model text default null) returns timestamptz
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set jit = off as $$
declare
    -- Of a model over models.
    is_behind boolean;
    inputs text[];
begin
    perform cdc.see_partitions();
    select
        rolled.is_finding or exists (select from unnest(rolled.inputs || rolled.model_name) as name where cdc.is_to_be_filled(name)),
        rolled.inputs
    into is_behind, inputs
    from cdc.plan_downstream(slot) as rolled
    where cdc.command_name(slot, rolled.model_name, rolled.declared_name, rolled.inputs) = model;
    if is_behind then
        return null;
    end if;
    return (
        with mark as (
            select
                min(coalesce(own.lost_lsn, own.applied_lsn)) as applied_lsn,
                bool_or(plans.step is distinct from 'add') as is_stopped
            from cdc.model_watermark as own
            -- A model that loader setup forgot while it was applied may have left its row.
            inner join cdc.plan_models(slot) as plans on plans.model_name = own.model_name
            where
                own.slot_name = slot
                and (
                    model is null and not cdc.is_copy(slot, array[own.model_name])
                    or cdc.command_name(slot, own.model_name, plans.declared_name) = model
                    -- A model over models is as far as what it reads.
                    or own.model_name = any (inputs)
                )
        )

        select
            case
                when mark.applied_lsn is null then null
                -- The log may lack what came next.
                when mark.is_stopped or log.broken is not null then newest.committed_at
                -- Everything before this one is applied.
                when waiting.committed_at is not null then waiting.committed_at
                -- An idle loader leaves so little WAL unread.
                when reader.is_followed and reader.unread <= 16384 then clock_timestamp()
                when reader.unread <= 1000000 then greatest(newest.committed_at, log.moved_at)
                -- Of a source that is another server it is not known whether more was committed.
                else coalesce(newest.committed_at, log.moved_at)
            end
        from cdc.slot_position as log
        cross join mark
        left join lateral (
            select
                slots.active_pid is not null as is_followed,
                pg_wal_lsn_diff(
                    case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end,
                    log.position_lsn
                ) as unread
            from pg_replication_slots as slots
            where slots.slot_name = log.slot_name and slots.database = log.source_database
        ) as reader on true
        left join lateral (
            select staged.committed_at from cdc.change_log as staged
            where staged.slot_name = log.slot_name and staged.commit_lsn >= mark.applied_lsn
            order by staged.slot_name, staged.commit_lsn, staged.ordinal
            limit 1
        ) as waiting on true
        left join lateral (
            select applied.committed_at from cdc.change_log as applied
            where applied.slot_name = log.slot_name and applied.commit_lsn < mark.applied_lsn
            order by applied.slot_name desc, applied.commit_lsn desc, applied.ordinal desc
            limit 1
        ) as newest on true
        where log.slot_name = slot
    );
end
$$;

comment on function cdc.exact_as_of(text, text) is
    'Until when everything that was committed at the source is in the model, or in every model of the slot.';
