-- Wait until every model of the slot, or the one with this name and what it is made of, holds what was committed
-- before lsn; false where the time is over.
-- The lock tells the loader that somebody waits: it then stores its position also where the source has
-- written nothing but little WAL of others.
create or replace function cdc.wait_for(slot text, lsn pg_lsn, timeout interval, fact text default null)
returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    deadline constant timestamptz := clock_timestamp() + timeout;
    wanted constant text[] := array(
        select plans.model_name from cdc.plan_models(slot) as plans
        where fact is null or plans.fact_name = fact
        union all
        select unnest(rolled.inputs || rolled.model_name) from cdc.plan_roll_ups(slot) as rolled
        where fact is null or rolled.fact_name = fact
    );
    is_told boolean := false;
begin
    if num_nulls(lsn, timeout) > 0 then
        raise exception 'the position and the time to wait for must not be null';
    elsif fact is not null and wanted = '{}' then
        raise exception 'no model of slot % is named %', slot, fact using hint = '`loader stats` lists the models';
    end if;
    loop
        is_told := is_told or pg_try_advisory_xact_lock_shared(cdc.lock_key('wait', slot));
        if exists (
            select from cdc.slot_position as log
            where log.slot_name = slot and log.position_lsn >= lsn
        ) and not exists (
            select from cdc.plan_models(slot) as plans
            where
                plans.model_name = any (wanted)
                and (
                    plans.step is distinct from 'add'
                    or plans.error is not null
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
                )
        ) and not exists (
            select from cdc.plan_roll_ups(slot) as rolled
            where rolled.model_name = any (wanted) and (rolled.step is not null or rolled.is_finding)
        ) then
            return true;
        end if;
        exit when clock_timestamp() >= deadline;
        perform pg_sleep(0.005);
    end loop;
    return false;
end
$$;

comment on function cdc.wait_for(text, pg_lsn, interval, text) is
    'Read your own writes: true once every model of the slot, or the named one, holds what was committed before lsn.';

revoke execute on function cdc.wait_for(text, pg_lsn, interval, text) from public;
