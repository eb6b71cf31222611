-- Whether a change that lacks a column may be of a table whose columns have other names by now: no loader has looked
-- since. A model that lacks one already is to be seeded anyway.
create or replace function cdc.is_unseen(plan cdc.model_plan, lost_lsn pg_lsn) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select log.catalog_lsn <= is_unseen.lost_lsn and not exists (
        select from cdc.model_watermark as mark
        where mark.slot_name = plan.slot_name and mark.model_name = plan.model_name and mark.lost_lsn is not null
    )
    from cdc.slot_position as log where log.slot_name = plan.slot_name
$$;
