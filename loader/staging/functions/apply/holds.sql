-- Whether these models, by their relations, and what they are made of at this moment, hold what was committed before
-- lsn.
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
    return (
        with dependents as materialized (
            select * from cdc.plan_dependents(slot)
        ),

        wanted as materialized (
            select unnest(models) as relation
            union
            select unnest(dependents.inputs) from dependents where dependents.relation = any (models)
        )

        select not exists (
            select from cdc.plan_models(slot) as plans
            inner join wanted on wanted.relation = plans.relation
            where
                plans.step is distinct from 'add'
                or plans.error is not null
                or exists (
                    select from cdc.model_watermark as mark
                    where mark.slot_name = slot and mark.relation = plans.relation and mark.lost_lsn is not null
                )
                or (
                    plans.applied_lsn < lsn
                    and exists (
                        select from cdc.change_log as log
                        where
                            log.slot_name = slot
                            and log.commit_lsn >= plans.applied_lsn
                            and log.commit_lsn < lsn
                    )
                )
        ) and not exists (
            select from dependents
            inner join wanted on wanted.relation = dependents.relation
            where cdc.is_to_be_filled(dependents.relation) or dependents.is_finding
        )
    );
end
$$;
