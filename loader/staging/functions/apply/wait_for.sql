-- Wait until every model of the slot, or each of those with these names and what they are made of, holds what was
-- committed before lsn; false where the time is over.
-- The lock tells the loader that somebody waits: it then stores its position also where the source has
-- written nothing but little WAL of others.
create or replace function cdc.wait_for(slot text, lsn pg_lsn, timeout interval, models text[] default null)
returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    deadline constant timestamptz := clock_timestamp() + timeout;
    wanted text[];
    unknown text;
    is_told boolean := false;
begin
    if num_nulls(lsn, timeout) > 0 then
        raise exception 'the position and the time to wait for must not be null';
    elsif cardinality(models) = 0 or array_position(models, null) is not null then
        raise exception 'a model to wait for has no name' using hint = 'leave models out to wait for all of them';
    end if;
    with known as materialized (
        select plans.fact_name, array[plans.model_name] as relations from cdc.plan_models(slot) as plans
        union all
        select rolled.fact_name, rolled.inputs || rolled.model_name from cdc.plan_roll_ups(slot) as rolled
    )

    select
        array(
            select unnest(known.relations) from known
            where models is null or known.fact_name = any (models)
        ),
        (
            select string_agg(named, ', ') from unnest(models) as named
            where named not in (select known.fact_name from known)
        )
    into wanted, unknown;
    if unknown is not null then
        raise exception 'no model of slot % is named %', slot, unknown using hint = '`loader stats` lists the models';
    end if;
    loop
        is_told := is_told or pg_try_advisory_xact_lock_shared(cdc.lock_key('wait', slot));
        -- The position first, then the log: a statement that asks for both may be planned before the loader attaches a
        -- partition, and find the position that lies in it.
        if exists (
            select from cdc.slot_position as log
            where log.slot_name = slot and log.position_lsn >= lsn
        ) then
            perform cdc.see_partitions();
            if not exists (
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
        end if;
        exit when clock_timestamp() >= deadline;
        perform pg_sleep(0.005);
    end loop;
    return false;
end
$$;

comment on function cdc.wait_for(text, pg_lsn, interval, text[]) is
    'Read your own writes: true once every model of the slot, or each named one, holds what was committed before lsn.';

revoke execute on function cdc.wait_for(text, pg_lsn, interval, text[]) from public;
