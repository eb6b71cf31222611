-- Forget a model, in every slot and schema, by its name or that of one relation, as commands take them; return the
-- relations, whose tables stay.
create or replace function cdc.forget_model(model text) returns text[]
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    relations text[] := array[]::text[];
    own record;
begin
    -- As whoever applies or installs it, and in their order.
    perform pg_advisory_xact_lock(cdc.lock_key('model', installed.relation))
    from cdc.installed_model as installed
    where model in (installed.model_name, installed.relation)
    order by installed.relation;
    for own in
        select installed.slot_name, installed.relation, installed.model_name from cdc.installed_model as installed
        where model in (installed.model_name, installed.relation)
        order by installed.slot_name, installed.relation
    loop
        perform pg_advisory_xact_lock(cdc.lock_key('reader', cdc.reader_name(own.slot_name)));
        perform cdc.forget_relation(own.slot_name, own.relation);
        relations := relations || own.relation;
        if not exists (
            select from cdc.installed_model as other
            where other.slot_name = own.slot_name and other.model_name = own.model_name
        ) then
            delete from cdc.baseline_rejection as gone where gone.slot_name = own.slot_name and gone.model_name = own.model_name;
            delete from cdc.baseline_group as gone where gone.slot_name = own.slot_name and gone.model_name = own.model_name;
            delete from cdc.baseline as gone where gone.slot_name = own.slot_name and gone.model_name = own.model_name;
        end if;
    end loop;
    with gone as (
        delete from cdc.dependent_model as dependent
        where
            model in (dependent.model_name, dependent.relation)
            or dependent.declaration ->> 'kind' = 'changes' and exists (
                select from cdc.dependent_input as input
                left join cdc.dependent_model as lower on lower.relation = input.input_relation
                where
                    input.relation = dependent.relation
                    and (input.input_relation = any (relations) or model in (lower.model_name, lower.relation))
            )
        returning dependent.relation
    ), unasked as (
        delete from cdc.to_fill using gone where to_fill.relation = gone.relation
    ), unqueued as (
        delete from cdc.queued_change using gone where queued_change.relation = gone.relation
    )
    select relations || coalesce(array_agg(gone.relation order by gone.relation), '{}') into relations from gone;
    return relations;
end
$$;

revoke execute on function cdc.forget_model(text) from public;
