-- Write down what a model over models failed with, and when it is tried again: ever more seldom. Where somebody else
-- writes its row at this moment, nothing is awaited.
create or replace function cdc.note_downstream_failure(model text, message text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform from cdc.downstream_model as own where own.model_name = model for no key update skip locked;
    if found then
        update cdc.downstream_model as own
        set error = message, failures = failures + 1, retry_at = clock_timestamp() + make_interval(secs => least(60, 2 ^ least(failures, 10)))
        where own.model_name = model;
    end if;
end
$$;
