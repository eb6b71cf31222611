-- Apply what is staged for a slot, in the caller's transaction: the models that follow move to the next
-- position together, and each model behind them makes a step of its own. is_behind says that another call
-- has more to do at once. `part` may be front or behind: then one caller keeps the front fresh, and is
-- told of the models there alone, while another helps the models behind, one at a call.
create or replace function cdc.apply(slot text, part text default 'all')
returns table (
    model_name text, state text, reason text, remedy text, applied_lsn pg_lsn, is_behind boolean
)
language plpgsql security definer
-- Also for the routines of the models: values are printed and read in one way, or the ids of a fact's groups would
-- change, and compiling takes longer than most batches.
set search_path = pg_catalog, pg_temp
set jit = off
set row_security = off
set standard_conforming_strings = on
set transform_null_equals = off
set DateStyle = 'ISO, MDY'
set IntervalStyle = postgres
set TimeZone = 'UTC'
set extra_float_digits = 1
set bytea_output = hex
as $$
declare
    slice_size constant bigint := cdc.slice_size();
    plan cdc.model_plan;
    front text[];
    front_lsn pg_lsn;
    is_more boolean := false;
    has_moved boolean := false;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception '% reads what was committed while it waits, so it needs READ COMMITTED', 'cdc.apply'
            using hint = 'set transaction isolation level read committed;';
    elsif part not in ('all', 'front', 'behind') then
        raise exception 'part is %; it takes all, front or behind', part;
    elsif not exists (select from cdc.slot_position as log where log.slot_name = slot) then
        raise exception 'no change log for slot %', slot using hint = '`loader setup` makes it';
    end if;
    if part <> 'behind' then
        select done.front, done.front_lsn, done.is_more into front, front_lsn, is_more
        from cdc.apply_front(slot, slice_size) as done;
    end if;
    if part = 'front' then
        return query
        select ready.name, 'follows', null, null, front_lsn, is_more
        from unnest(front) as ready (name);
        return;
    else
        front_lsn := coalesce(front_lsn, cdc.front_of(slot));
        for plan in
            select ready.*
            from cdc.plan_models(slot) as ready
            where
                ready.step is not null
                and ready.engine = 'database'
                and (ready.retry_at is null or ready.retry_at <= clock_timestamp())
                and (ready.step, ready.error, ready.applied_lsn) is distinct from ('add', null, front_lsn)
            order by ready.step desc, ready.applied_lsn, ready.model_name
        loop
            -- One that was rebuilt may be the first at the front.
            front_lsn := coalesce(front_lsn, cdc.front_of(slot));
            -- What was written down is locked: a wait for the front would be a deadlock with its caller.
            has_moved := cdc.apply_behind(plan, front_lsn, slice_size) and part = 'behind';
            exit when has_moved;
        end loop;
        if not has_moved then
            while cdc.fill_roll_up(slot) and part <> 'behind' loop
            end loop;
        end if;
    end if;

    return query
    with ready as (
        select
            plans.*,
            max(plans.applied_lsn) filter (where plans.is_ready) over () as front_lsn
        from cdc.plan_models(slot) as plans
    )

    select
        ready.model_name,
        ready.state,
        ready.reason,
        ready.remedy,
        ready.applied_lsn,
        coalesce(
            case
                when ready.step is null or ready.engine = 'spark' or ready.retry_at > clock_timestamp() then false
                when ready.step = 'rebuild' then ready.from_lsn <= coalesce(ready.front_lsn, ready.from_lsn)
                when ready.applied_lsn = ready.front_lsn then is_more
                else ready.applied_lsn < coalesce(ready.front_lsn, ready.position_lsn)
            end,
            false
        )
    from ready
    union all
    select
        rolled.model_name,
        rolled.state,
        rolled.reason,
        rolled.remedy,
        rolled.applied_lsn,
        rolled.step is not null and coalesce(rolled.retry_at <= clock_timestamp(), true)
    from cdc.plan_roll_ups(slot) as rolled
    order by 1;
end
$$;

comment on function cdc.apply(text, text) is
    'Bring the models of a slot to one position: what loader run --build, dbt build and anybody else call.';

revoke execute on function cdc.apply(text, text) from public;
