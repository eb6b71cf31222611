-- Tell who listens that a slot's models are at a position, and which of them may have changed: those that had
-- something to apply, and what reads them; no names where there are too many.
create or replace function cdc.notify_applied(slot text, lsn pg_lsn, models text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    payload jsonb := jsonb_build_object('slot', slot, 'position', lsn);
    named jsonb := payload || jsonb_build_object('models', to_jsonb(array(
        select distinct coalesce(dependent.model_name, installed.model_name)
        from (select unnest(models) union select cdc.dependents_of(models)) as changed (relation)
        left join cdc.dependent_model as dependent on dependent.relation = changed.relation
        left join cdc.installed_model as installed on installed.slot_name = slot and installed.relation = changed.relation
        where num_nulls(dependent.model_name, installed.model_name) < 2
        order by 1
    )));
begin
    perform pg_notify('waltally', case when octet_length(named::text) < 8000 then named else payload end::text);
end
$$;
