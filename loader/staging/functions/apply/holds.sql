-- Whether these models, by their relations, and what they are made of at this moment, hold what was committed before
-- lsn. Not where one of them is not installed any more.
create or replace function cdc.holds(slot text, models text[], lsn pg_lsn) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    -- The position first, then the log: a statement that asks for both may be planned before the loader attaches a
    -- partition, and find the position that lies in it.
    if not exists (
        select from cdc.slot_position as log
        where log.slot_name = slot and log.position_lsn >= lsn and log.broken is null
    ) then
        return false;
    end if;
    perform cdc.see_partitions();
    -- Whoever waits asks again and again, and to plan all models costs a hundred times as much as this.
    if exists (
        select from cdc.inputs_of(models) as wanted (relation)
        left join cdc.model_watermark as mark on mark.slot_name = slot and mark.relation = wanted.relation
        left join cdc.dependent_model as dependent on dependent.relation = wanted.relation
        where cdc.lacks_changes(slot, mark.applied_lsn, lsn) or cdc.is_to_be_filled(dependent.relation)
    ) then
        return false;
    end if;
    return (
        with plans as materialized (
            select * from cdc.plan_models(slot)
        ),

        dependents as materialized (
            select * from cdc.plan_dependents(slot)
        ),

        wanted as materialized (
            select own.relation from cdc.inputs_of(models) as own (relation)
        )

        select not exists (
            select from plans
            inner join wanted on wanted.relation = plans.relation
            where
                plans.step is distinct from 'add'
                or plans.error is not null
                or cdc.lacks_changes(slot, plans.applied_lsn, lsn)
                or exists (
                    select from cdc.model_watermark as mark
                    where mark.slot_name = slot and mark.relation = plans.relation and mark.lost_lsn is not null
                )
        ) and not exists (
            select from dependents
            inner join wanted on wanted.relation = dependents.relation
            where cdc.is_to_be_filled(dependents.relation) or dependents.is_finding
        ) and models <@ array(select plans.relation from plans union all select dependents.relation from dependents)
    );
end
$$;
