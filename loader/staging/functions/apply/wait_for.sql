-- Wait until every model of the slot that was ever built, but copies, or each of these, by their names in model_state,
-- and what they are made of, holds what was committed before lsn; false where the time is over. The lock tells the
-- loader that somebody waits: it then stores its position also where the source has written nothing but little WAL of
-- others.
create or replace function cdc.wait_for(slot text, lsn pg_lsn, timeout interval, models text[] default null)
returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = 0 set jit = off as $$
declare
    begun constant timestamptz := clock_timestamp();
    deadline constant timestamptz := begun + timeout;
    unknown text;
    wanted text[];
    is_announced boolean := false;
begin
    if num_nulls(lsn, timeout) > 0 then
        raise exception 'the position and the time to wait for must not be null';
    elsif cardinality(models) = 0 or array_position(models, null) is not null then
        raise exception 'a model to wait for has no name' using hint = 'leave models out to wait for all of them';
    end if;
    loop
        -- Milliseconds: as long as is left, within what the setting takes.
        perform set_config('lock_timeout', (
            select least(greatest(ceil(extract(epoch from deadline - clock_timestamp()) * 1000), 1), 2147483647)::text
        ), true);
        if wanted is null then
            unknown := (
                select string_agg(named, ', ') from unnest(models) as named
                where named not in (select known.model_name from cdc.model_state as known where known.slot_name = slot)
            );
            if unknown is not null then
                raise exception 'no model of slot % is named %', slot, unknown using hint = '`loader stats` lists the models';
            end if;
            wanted := array(
                select known.relation from cdc.model_state as known
                where
                    known.slot_name = slot
                    -- A new one has no rows that anybody could read: it waits for its seed.
                    and case when models is null then known.model_name <> known.relation and known.applied_lsn is not null
                        else known.model_name = any (models) end
            );
        end if;
        is_announced := is_announced or pg_try_advisory_xact_lock_shared(cdc.lock_key('wait', slot));
        if wanted = '{}' then
            wanted := null;
        elsif cdc.holds(slot, wanted, lsn) then
            return true;
        end if;
        exit when clock_timestamp() >= deadline;
        -- One of them may have been forgotten, or be somewhere else now.
        if exists (
            select from unnest(wanted) as named (relation)
            where
                not exists (select from cdc.installed_model as own where own.slot_name = slot and own.relation = named.relation)
                and not exists (select from cdc.dependent_model as own where own.relation = named.relation)
        ) then
            wanted := null;
        end if;
        -- Ever more seldom, so that it ends a twentieth of its time late at most.
        perform pg_sleep(least(greatest(extract(epoch from clock_timestamp() - begun) / 20, 0.005), 0.2));
    end loop;
    return false;
exception
    -- Somebody keeps the log or the state locked.
    when lock_not_available then
        return false;
end
$$;

comment on function cdc.wait_for(text, pg_lsn, interval, text[]) is
    'Read your own writes: true once every model of the slot, or each named one, holds what was committed before lsn.';

revoke execute on function cdc.wait_for(text, pg_lsn, interval, text[]) from public;
