-- Bring models that catch up nearer to the others, `until` at the latest, and fill models over models; with
-- `is_one` one of them alone.
create or replace function cdc.apply_rest(
    slot text, plans cdc.model_plan[], caught_up_lsn pg_lsn, until pg_lsn, is_one boolean
) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    begin_lsn constant pg_lsn := (
        select max(planned.applied_lsn) from unnest(plans) as planned where planned.is_ready
    );
    plan cdc.model_plan;
begin
    for plan in
        select planned.*
        from unnest(plans) as planned
        where
            planned.step is not null
            and planned.engine = 'database'
            and (planned.retry_at is null or planned.retry_at <= clock_timestamp())
            and not (planned.is_ready and planned.applied_lsn = begin_lsn)
        order by planned.step = 'rebuild' desc, planned.applied_lsn, planned.relation
    loop
        -- One that was rebuilt may be the first that has caught up.
        caught_up_lsn := coalesce(caught_up_lsn, cdc.caught_up_lsn(slot));
        -- What was written down is locked: a wait for the others would be a deadlock with its caller.
        if cdc.apply_catching_up(plan, caught_up_lsn, until, cdc.batch_size()) and is_one then
            return;
        end if;
    end loop;
    -- Each once at most: whatever they do to each other, the call ends.
    for round in 1..(select count(*) from cdc.dependent_model) loop
        exit when not cdc.fill_dependent(slot, is_one) or is_one;
    end loop;
end
$$;
