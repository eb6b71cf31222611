-- Have the next apply fill a roll-up: it failed with the error, or more moved than it may take on, or it is locked.
-- Where somebody else writes its row at this moment, nothing is awaited: the input is passed over, and catches up.
create or replace function cdc.suspend_roll_up(model text, error text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform from cdc.roll_up as rolled where rolled.model_name = model for no key update skip locked;
    if not found then
        raise exception 'another session changes %', model using errcode = 'WL001';
    end if;
    update cdc.roll_up as rolled
    set
        is_due = true,
        error = suspend_roll_up.error,
        failures = case when suspend_roll_up.error is null then 0 else failures + 1 end,
        retry_at = case
            when suspend_roll_up.error is not null
                then clock_timestamp() + make_interval(secs => least(60, 2 ^ least(failures, 10)))
        end
    where rolled.model_name = model;
end
$$;
