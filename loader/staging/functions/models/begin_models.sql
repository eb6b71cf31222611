-- Lock models that are to be brought to a position, and see that their plans still hold. The error WL001 means
-- that somebody else changes one of them at this moment: the next apply takes it.
create or replace function cdc.begin_models(plans cdc.model_plan[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    plan cdc.model_plan;
begin
    foreach plan in array plans loop
        if not pg_try_advisory_xact_lock(cdc.lock_key('model', plan.relation)) then
            raise exception 'another session builds it' using errcode = 'WL001';
        end if;
        -- Under the lock, and after the batch was read.
        perform cdc.require_plan(plan);
    end loop;
    -- The dependents of one that is built again are filled after that, and others may add to them until then.
    perform cdc.lock_dependents(array(select planned.relation from unnest(plans) as planned where planned.step = 'add'));
end
$$;
