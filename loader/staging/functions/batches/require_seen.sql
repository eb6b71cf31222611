-- Stop a model at a change that lacks a column as long as no loader has looked since what the table's columns are
-- called: one may have another name. Where a loader has looked after the plan was made, the plan holds no more. A model
-- that lacks a change already is to be seeded anyway.
create or replace function cdc.require_seen(plan cdc.model_plan, lost_lsn pg_lsn) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if lost_lsn is null then
        return;
    end if;
    if exists (
        select from cdc.known_model as known
        where
            known.slot_name = plan.slot_name
            and known.relation = plan.relation
            and known.gone_columns is not null
            and known.lost_lsn is null
    ) then
        raise exception 'a loader has seen meanwhile that a column is gone' using errcode = 'WL001';
    end if;
    if exists (
        select from cdc.slot_position as log
        left join cdc.model_watermark as mark on mark.slot_name = log.slot_name and mark.relation = plan.relation
        where log.slot_name = plan.slot_name and log.catalog_lsn <= require_seen.lost_lsn and mark.lost_lsn is null
    ) then
        raise exception 'a change lacks a column, and no loader has looked since which ones the table has'
            using errcode = 'WL006', hint = 'nothing, if a loader runs: it looks within seconds, and the model goes on';
    end if;
end
$$;
