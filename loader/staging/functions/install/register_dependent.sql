-- Write down a model over models that dbt has installed, and have it filled where what it holds is not what its query
-- gives.
create or replace function cdc.register_dependent(
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
    delete from cdc.dependent_model as own
    where own.project = register_dependent.project and own.model_name = register_dependent.name and own.relation <> model
        and not cdc.is_table(own.relation);
    -- Whoever forgets it at this moment is waited for: then it is new.
    select own.declaration into former from cdc.dependent_model as own where own.relation = model for update;
    insert into cdc.dependent_model as own (relation, model_name, project, declaration, routine, indexes)
    values (model, register_dependent.name, register_dependent.project, register_dependent.declaration, functions[1], register_dependent.indexes)
    on conflict on constraint dependent_model_pkey do update
    set
        model_name = excluded.model_name, project = excluded.project, declaration = excluded.declaration, routine = excluded.routine,
        indexes = excluded.indexes, error = null, failures = 0, retry_at = null;
    delete from cdc.dependent_input as input where input.relation = model;
    insert into cdc.dependent_input (relation, input_relation)
    select distinct model, value ->> 'model' from jsonb_array_elements(register_dependent.declaration -> 'inputs');
    if is_refresh or former is distinct from register_dependent.declaration then
        perform cdc.ask_to_fill(model, case when former is null then 'it is new' when is_refresh then 'dbt asked for it' else 'its query has changed' end);
    end if;
    with recursive walk as (
        select input.relation, 1 as level from cdc.dependent_input as input
        union
        select input.relation, walk.level + 1
        from walk inner join cdc.dependent_input as input on input.input_relation = walk.relation
        where walk.level < 100
    )

    update cdc.dependent_model as own
    set level = found.level
    from (select walk.relation, max(walk.level) as level from walk group by walk.relation) as found
    where found.relation = own.relation and found.level <> own.level;
end
$$;

revoke execute on function cdc.register_dependent(text, text, text, jsonb, text[], jsonb, boolean) from public;
