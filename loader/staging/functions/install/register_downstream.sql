-- Write down a model over models that dbt has installed, and have it filled where what it holds is not what its query
-- gives.
create or replace function cdc.register_downstream(
    model text, name text, project text, declaration jsonb, functions text[], indexes jsonb, is_refresh boolean
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    former jsonb;
begin
    -- Two threads of dbt that install models below one would each count its level without the other.
    perform pg_advisory_xact_lock(cdc.lock_key('reader', 'models over models'));
    perform cdc.note_functions(model, functions);
    -- The same model in another schema, which its project has left.
    delete from cdc.downstream_model as own
    where own.project = register_downstream.project and own.model_name = register_downstream.name and own.relation <> model
        and not cdc.is_table(own.relation);
    -- Whoever forgets it at this moment is waited for: then it is new.
    select own.declaration into former from cdc.downstream_model as own where own.relation = model for update;
    insert into cdc.downstream_model as own (relation, model_name, project, declaration, routine, indexes)
    values (model, register_downstream.name, register_downstream.project, register_downstream.declaration, functions[1], register_downstream.indexes)
    on conflict on constraint downstream_model_pkey do update
    set
        model_name = excluded.model_name, project = excluded.project, declaration = excluded.declaration, routine = excluded.routine,
        indexes = excluded.indexes, error = null, failures = 0, retry_at = null;
    delete from cdc.downstream_input as input where input.relation = model;
    insert into cdc.downstream_input (relation, input_relation)
    select distinct model, value ->> 'model' from jsonb_array_elements(register_downstream.declaration -> 'inputs');
    if is_refresh or former is distinct from register_downstream.declaration then
        perform cdc.ask_to_fill(model, case when former is null then 'it is new' when is_refresh then 'dbt asked for it' else 'its query has changed' end);
    end if;
    with recursive walk as (
        select input.relation, 1 as level from cdc.downstream_input as input
        union
        select input.relation, walk.level + 1
        from walk inner join cdc.downstream_input as input on input.input_relation = walk.relation
        where walk.level < 100
    )

    update cdc.downstream_model as own
    set level = found.level
    from (select walk.relation, max(walk.level) as level from walk group by walk.relation) as found
    where found.relation = own.relation and found.level <> own.level;
end
$$;

revoke execute on function cdc.register_downstream(text, text, text, jsonb, text[], jsonb, boolean) from public;
