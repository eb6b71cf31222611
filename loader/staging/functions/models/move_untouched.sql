-- Move models at begin_lsn that no change up to to_lsn touches, and return them. One that another slot rebuilds at this
-- moment stays behind: its row is written there.
create or replace function cdc.move_untouched(slot text, models text[], begin_lsn pg_lsn, to_lsn pg_lsn)
returns setof text
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    return query
    update cdc.model_watermark as mark
    set applied_lsn = to_lsn, moved_at = now()
    from (
        select own.model_name
        from cdc.model_watermark as own
        where own.slot_name = slot and own.model_name = any (models) and own.applied_lsn = begin_lsn
        for no key update skip locked
    ) as free
    where mark.slot_name = slot and mark.model_name = free.model_name
    returning mark.model_name;
end
$$;
