-- SQL: add what changed rows of an input do to a model over models: rows that the routine was told, or those that were
-- queued, whose changes it tells nobody.
create or replace function cdc.write_added(compiled jsonb, model text, relation text, is_queued boolean) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select cdc.write_long(compiled, relation, case
        when compiled ? 'group' then cdc.write_replaced(compiled, model, relation, own.is_watched, is_queued)
        else cdc.write_merge(compiled, relation, cdc.write_delta(compiled, model, is_queued), own.is_watched)
    end)
    from (values (case when is_queued then 'false' else '$5 is not null' end)) as own (is_watched)
$$;
