-- The models of a slot that wait for nothing but a seed, as commands take them: not copies, nor those whose seed counts
-- at this moment or has failed a short while ago.
create or replace function cdc.due_seeds(slot text) returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(array_agg(distinct model.model_name), '{}')
    from cdc.explained_model as model
    where
        model.slot_name = slot
        and model.relation = model.original
        and 'seed' = any (model.needs)
        and model.needs[1] in ('run', 'seed')
        and model.state <> 'failed'
        and coalesce(model.seed_retry_at <= clock_timestamp(), true)
        and cdc.holder_of(cdc.lock_key('seeding', model.slot_name, model.relation)) is null
$$;
