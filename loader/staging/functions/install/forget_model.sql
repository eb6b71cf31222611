-- Forget a model, in every slot and schema, by its name or that of one relation, as commands take them; return the
-- relations, whose tables stay.
create or replace function cdc.forget_model(model text) returns text[]
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    relations text[] := array[]::text[];
    own record;
begin
    -- As whoever applies or installs it, and in their order.
    perform pg_advisory_xact_lock(cdc.lock_key('model', installed.model_name))
    from cdc.installed_model as installed
    where model in (installed.declared_name, installed.model_name)
    order by installed.model_name;
    for own in
        select installed.slot_name, installed.model_name, installed.declared_name from cdc.installed_model as installed
        where model in (installed.declared_name, installed.model_name)
        order by installed.slot_name, installed.model_name
    loop
        perform pg_advisory_xact_lock(cdc.lock_key('reader', cdc.reader_name(own.slot_name)));
        perform cdc.forget_relation(own.slot_name, own.model_name);
        relations := relations || own.model_name;
        if not exists (
            select from cdc.installed_model as other
            where other.slot_name = own.slot_name and other.declared_name = own.declared_name
        ) then
            delete from cdc.baseline_rejection as gone where gone.slot_name = own.slot_name and gone.declared_name = own.declared_name;
            delete from cdc.baseline_group as gone where gone.slot_name = own.slot_name and gone.declared_name = own.declared_name;
            delete from cdc.baseline as gone where gone.slot_name = own.slot_name and gone.declared_name = own.declared_name;
        end if;
    end loop;
    with gone as (
        delete from cdc.downstream_model as upper
        where
            model in (upper.name, upper.model_name)
            or upper.declaration ->> 'kind' = 'changes' and exists (
                select from cdc.downstream_input as input
                left join cdc.downstream_model as lower on lower.model_name = input.input_name
                where
                    input.model_name = upper.model_name
                    and (input.input_name = any (relations) or model in (lower.name, lower.model_name))
            )
        returning upper.model_name
    ), unasked as (
        delete from cdc.to_fill using gone where to_fill.model_name = gone.model_name
    ), unqueued as (
        delete from cdc.queued_change using gone where queued_change.model_name = gone.model_name
    )
    select relations || coalesce(array_agg(gone.model_name order by gone.model_name), '{}') into relations from gone;
    return relations;
end
$$;

revoke execute on function cdc.forget_model(text) from public;
