-- Write down what a model over models failed with, and when it is tried again: ever more seldom; without a message, as
-- somebody has locked it, a second later. Where somebody else writes its row at this moment, nothing is awaited.
create or replace function cdc.note_downstream_failure(model text, message text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform from cdc.downstream_model as own where own.model_name = model for no key update skip locked;
    if found then
        update cdc.downstream_model as own
        set
            error = message,
            failures = case when message is null then 0 else failures + 1 end,
            retry_at = clock_timestamp() + make_interval(secs => case when message is null then 1 else least(60, 2 ^ least(failures, 10)) end)
        where own.model_name = model;
    end if;
end
$$;
