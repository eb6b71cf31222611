-- Write down what the seed of these models ended with, null where it succeeded, and when it is tried again: ever more
-- seldom, first after so many seconds.
create or replace function cdc.note_seed(slot text, models text[], message text, pause double precision) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    update cdc.installed_model as own set
        seed_error = message,
        seed_failures = case when message is null then 0 else own.seed_failures + 1 end,
        seed_retry_at = case
            when message is not null then clock_timestamp() + make_interval(secs => pause * 2 ^ least(own.seed_failures, 5))
        end
    where own.slot_name = slot and own.model_name = any (models)
$$;
