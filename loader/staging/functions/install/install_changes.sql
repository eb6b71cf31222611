-- Keep what each batch changes in a model, in a table beside it, as long as its config says: `changes`, an interval.
-- What writes it down is a dependent of the model, of kind changes. Without `changes` it is
-- forgotten and its table dropped. Runs with the rights of dbt's role.
create or replace function cdc.install_changes(
    project text, model_schema text, model_table text, model_name text, compiled jsonb, changes text
) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    model_key constant text := model_schema || '.' || model_table;
    own_table constant text := model_table || '_changes';
    own_key constant text := model_key || '_changes';
    relation constant text := format('%I.%I', model_schema, own_table);
    declared jsonb;
    routine text;
    signature text;
    other text;
begin
    if changes is null then
        if cdc.forget_changes(own_key) then
            execute format('drop table if exists %s', relation);
            perform cdc.adopt_functions(own_key, '{}');
        end if;
        return;
    end if;
    select min(known.kind) into other
    from (
        select own.declaration ->> 'kind' as kind from cdc.dependent_model as own where own.relation = own_key
        union all
        select installed.declaration ->> 'kind' from cdc.installed_model as installed where installed.relation = own_key
    ) as known
    where known.kind <> 'changes';
    if other is not null or octet_length(own_table) > 63 then
        raise exception 'The changes of % are kept in %, %.', model_name, own_table,
            case when other is not null then 'which is another model' else 'a name that is too long' end
            using errcode = 'WL003', hint = 'Give the model another `alias`.';
    end if;
    declared := jsonb_build_object(
        'kind', 'changes', 'changes', changes::interval, 'timezone', 'UTC', 'keys', '[]'::jsonb, 'state_columns', '[]'::jsonb,
        'expression_columns', '[]'::jsonb, 'sources', '[]'::jsonb, 'inputs', jsonb_build_array(cdc.as_input(
            jsonb_build_object('model', model_key, 'schema', model_schema, 'name', model_table), compiled
        ) || jsonb_build_object('key', compiled -> 'keys'))
    );
    routine := cdc.routine_name(model_schema, own_table, 'apply', declared);
    signature := routine || '(text, text, anyarray, anyarray, anycompatiblearray)';
    perform cdc.require_table(relation, own_key);
    if to_regclass(relation) is null then
        execute format(
            'create table %s (number bigint generated always as identity primary key, position pg_lsn, '
            'changed_at timestamptz not null default now(), old jsonb, new jsonb)', relation
        );
        execute format('comment on table %s is %L', relation, format(
            'What each batch changed in %s. A row with neither old nor new: read the model anew.', model_name
        ));
    end if;
    execute cdc.write_changes_routine(declared, routine, relation);
    perform cdc.register_dependent(own_key, model_name || '_changes', project, declared, array[signature], '[]', false);
    perform cdc.adopt_functions(own_key, array[signature]);
end
$$;
