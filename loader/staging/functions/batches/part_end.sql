-- Where a part of the log ends that begins at a position and ordinal: at the first change that is one too many, or, of
-- the long ones but the first, whose payloads together are too large; null where all of it before to_lsn is one part.
create or replace function cdc.part_end(
    slot text, from_lsn pg_lsn, from_ordinal bigint, to_lsn pg_lsn, size bigint,
    out end_lsn pg_lsn, out end_ordinal bigint
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    select log.commit_lsn, log.ordinal into end_lsn, end_ordinal
    from cdc.change_log as log
    where
        log.slot_name = slot
        and log.commit_lsn >= from_lsn
        and log.commit_lsn < to_lsn
        and (log.commit_lsn, log.ordinal) >= (from_lsn, from_ordinal)
    order by log.slot_name, log.commit_lsn, log.ordinal
    offset size
    limit 1;

    select long.commit_lsn, long.ordinal into end_lsn, end_ordinal
    from (
        select
            log.commit_lsn,
            log.ordinal,
            sum(octet_length(log.payload)) over in_order as bytes,
            row_number() over in_order as number
        from cdc.change_log as log
        where
            log.slot_name = slot
            and log.commit_lsn >= from_lsn
            and log.commit_lsn < to_lsn
            and (log.commit_lsn, log.ordinal) >= (from_lsn, from_ordinal)
            -- The condition of the index change_log_long, word for word.
            and octet_length(payload) > 1000000
        window in_order as (order by log.slot_name, log.commit_lsn, log.ordinal)
    ) as long
    where long.bytes > cdc.batch_bytes() and long.number > 1
    union all
    select end_lsn, end_ordinal where end_lsn is not null
    order by 1, 2
    limit 1;
end
$$;
