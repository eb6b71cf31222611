-- Where a batch that begins at from_lsn ends if it is to hold so many changes at most: at the end of a
-- source transaction, to_lsn at the latest. One transaction that is larger goes whole, in several parts.
create or replace function cdc.batch_end(
    slot text, from_lsn pg_lsn, to_lsn pg_lsn, size bigint, out end_lsn pg_lsn, out is_large boolean
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    first_lsn pg_lsn;
begin
    is_large := false;
    end_lsn := (cdc.part_end(slot, from_lsn, 0, to_lsn, size)).end_lsn;
    if end_lsn is null then
        end_lsn := to_lsn;
        return;
    end if;

    select log.commit_lsn into first_lsn
    from cdc.change_log as log
    where log.slot_name = slot and log.commit_lsn >= from_lsn
    order by log.slot_name, log.commit_lsn, log.ordinal
    limit 1;
    if end_lsn > first_lsn then
        return;
    end if;

    is_large := true;
    select log.commit_lsn into end_lsn
    from cdc.change_log as log
    where log.slot_name = slot and log.commit_lsn > first_lsn and log.commit_lsn < to_lsn
    order by log.slot_name, log.commit_lsn, log.ordinal
    limit 1;
    end_lsn := coalesce(end_lsn, to_lsn);
end
$$;
