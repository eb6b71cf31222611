-- Until when everything that was committed lies before a position of a slot; null without one. is_stopped: nothing that
-- comes after it is applied.
create or replace function cdc.exact_until(slot text, applied_lsn pg_lsn, is_stopped boolean) returns timestamptz
language plpgsql stable strict set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select
            case
                -- The log may lack what came next.
                when is_stopped or log.broken is not null then newest.committed_at
                -- Everything before this one is applied.
                when waiting.committed_at is not null then waiting.committed_at
                -- An idle loader leaves so little WAL unread.
                when reader.is_followed and reader.unread <= 16384
                    then greatest(newest.committed_at, cdc.loader_seen(slot))
                when reader.unread <= 1000000 then greatest(newest.committed_at, log.moved_at)
                -- Of a source that is another server it is not known whether more was committed.
                else coalesce(newest.committed_at, log.moved_at)
            end
        from cdc.slot_position as log
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
            where staged.slot_name = slot and staged.commit_lsn >= applied_lsn
            order by staged.slot_name, staged.commit_lsn, staged.ordinal
            limit 1
        ) as waiting on true
        left join lateral (
            select applied.committed_at from cdc.change_log as applied
            where applied.slot_name = slot and applied.commit_lsn < applied_lsn
            order by applied.slot_name desc, applied.commit_lsn desc, applied.ordinal desc
            limit 1
        ) as newest on true
        where log.slot_name = slot
    );
end
$$;
