-- Of these models of a slot one whose query has changed: until it has its baseline, its table has the former columns.
-- Null if none.
create or replace function cdc.changing_input(slot text, models text[]) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select min(installed.relation)
    from cdc.installed_model as installed
    inner join cdc.model_watermark as mark
        on mark.slot_name = installed.slot_name and mark.relation = installed.relation
    where
        installed.slot_name = slot
        and installed.relation = any (models)
        and mark.declaration <> installed.declaration
$$;
