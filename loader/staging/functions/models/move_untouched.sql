-- Move models at begin_lsn that no change up to to_lsn touches, and return them. One that another slot rebuilds at this
-- moment stays behind: its row is written there. So does one whose plan holds no more: that nothing touches it was
-- judged by numbers which tables had before another model was installed.
create or replace function cdc.move_untouched(plans cdc.model_plan[], begin_lsn pg_lsn, to_lsn pg_lsn)
returns setof text
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    return query
    update cdc.model_watermark as mark
    set applied_lsn = to_lsn, moved_at = now()
    from (
        select own.slot_name, own.relation
        from unnest(plans) as planned
        inner join cdc.installed_model as installed
            on
                installed.slot_name = planned.slot_name
                and installed.relation = planned.relation
                and installed.xmin = planned.installed_version
        inner join cdc.model_watermark as own
            on own.slot_name = planned.slot_name and own.relation = planned.relation
        where own.applied_lsn = begin_lsn
        for no key update of own skip locked
    ) as free
    where mark.slot_name = free.slot_name and mark.relation = free.relation
    returning mark.relation;
end
$$;
