-- Apply what is staged for a slot, in the caller's transaction: the models that follow move to the next position
-- together, and each model that catches up makes a step of its own. is_behind says that another call has more to do at
-- once, is_finding that somebody has to do something. With `until` no model is brought further than there: an audit
-- compares them at a snapshot of the source. `part` may be `caught up` or `catching up`: then one caller keeps the
-- models fresh that have caught up, and gets these alone, while another helps those that catch up, one at a call.
create or replace function cdc.apply(slot text, until pg_lsn default null, part text default 'all')
returns table (
    model_name text, relation text, state text, reason text, remedy text, applied_lsn pg_lsn, engine text,
    is_locked boolean, is_behind boolean, is_finding boolean
)
language plpgsql security definer
-- Also for the routines of the models: values are printed and read in one way, or the ids of a model's groups would
-- change, and compiling takes longer than most batches. The values are those of the session in which loader setup makes
-- the function: waltally/session_settings.py pins them.
set search_path = pg_catalog, pg_temp
set jit from current
set row_security from current
set standard_conforming_strings from current
set transform_null_equals from current
set DateStyle from current
set IntervalStyle from current
set TimeZone from current
set xmloption from current
set extra_float_digits from current
set bytea_output from current
as $$
declare
    plans cdc.model_plan[];
    caught_up text[];
    caught_up_lsn pg_lsn;
    is_more boolean := false;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception '% reads what was committed while it waits, so it needs READ COMMITTED', 'cdc.apply'
            using hint = 'set transaction isolation level read committed;';
    elsif part not in ('all', 'caught up', 'catching up') then
        raise exception 'part is %; use all, caught up or catching up', part;
    elsif not exists (select from cdc.slot_position as log where log.slot_name = slot) then
        raise exception 'no change log for slot %', slot using hint = '`loader setup` makes it';
    end if;
    if part <> 'catching up' then
        perform pg_advisory_xact_lock(cdc.lock_key('slot', slot));
    end if;
    if part <> 'caught up' then
        -- Before the views below it, as who asks for the state does: loader setup locks them in this order too.
        lock table cdc.explained_model in access share mode;
    end if;
    plans := array(select planned from cdc.plan_models(slot) as planned);
    -- The statements below know the partitions that were made since the session began.
    perform cdc.see_partitions();
    caught_up_lsn := (select max(planned.applied_lsn) from unnest(plans) as planned where planned.is_ready);
    if part <> 'catching up' then
        select done.caught_up, done.caught_up_lsn, done.is_more into caught_up, caught_up_lsn, is_more
        from cdc.apply_caught_up(slot, plans, caught_up_lsn, until) as done;
    end if;
    if part = 'caught up' then
        return query
        select
            planned.model_name, planned.relation, 'follows', null, null, caught_up_lsn, planned.engine, false,
            is_more, false
        from unnest(plans) as planned
        where planned.relation = any (caught_up);
        return;
    end if;
    perform cdc.apply_rest(slot, plans, caught_up_lsn, until, part = 'catching up');
    return query select * from cdc.report_models(slot, is_more, until);
end
$$;

comment on function cdc.apply(text, pg_lsn, text) is
    'Bring the models of a slot to one position: what loader run --build, dbt build and anybody else call.';

-- Whoever may call it acts on the models with the rights of their owners.
revoke execute on function cdc.apply(text, pg_lsn, text) from public;
