-- Have the next apply fill a roll-up: a trigger failed with the error, or more moved than it may take on.
create or replace function cdc.suspend_roll_up(model text, error text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
    update cdc.roll_up as rolled
    set
        is_due = true,
        error = suspend_roll_up.error,
        failures = case when suspend_roll_up.error is null then 0 else failures + 1 end,
        retry_at = case
            when suspend_roll_up.error is not null
                then clock_timestamp() + make_interval(secs => least(60, 2 ^ least(failures, 10)))
        end
    where rolled.model_name = model
$$;

revoke execute on function cdc.suspend_roll_up(text, text) from public;
