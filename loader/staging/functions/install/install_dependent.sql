-- dbt calls this to install a model over models, in its own transaction and with its own rights: as install_query,
-- whose arguments it takes, with the project's name for the slot. The next apply fills it.
create or replace function cdc.install_dependent(
    project text, model_schema text, model_table text, model_name text, query text, relations jsonb, options jsonb,
    listed text, is_refresh boolean
) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp set quote_all_identifiers = off set jit = off as $$
declare
    compiled constant jsonb := cdc.compile_query(query, cdc.model_inputs(relations), options);
    model_key constant text := model_schema || '.' || model_table;
    relation constant text := format('%I.%I', model_schema, model_table);
    routine constant text := cdc.routine_name(model_schema, model_table, 'apply', compiled);
    deltas constant text := cdc.routine_name(model_schema, model_table, 'deltas', compiled);
    functions constant text[] := array[routine || '(text, text, anyarray, anyarray, anycompatiblearray)']
        || case when not compiled ? 'group' then array[deltas || '(text, text, anyarray, anyarray, jsonb[])'] end;
    is_new constant boolean := to_regclass(relation) is null;
begin
    perform cdc.require_table(relation, model_key);
    if is_new then
        execute cdc.write_table(compiled, relation, format('uix_%s_dimensions', model_table));
    end if;
    if not compiled ? 'group' then
        execute format('drop function if exists %s', functions[2]);
        execute cdc.write_model_deltas(compiled, deltas);
    end if;
    execute cdc.write_dependent(compiled, routine, deltas, relation);
    perform cdc.register_dependent(
        model_key, model_name, project, compiled, functions, cdc.needed_indexes(compiled, relation), is_refresh or is_new
    );
    perform cdc.install_changes(project, model_schema, model_table, model_name, compiled, options ->> 'changes');
    perform cdc.drop_unused_indexes(model_schema);
    perform cdc.adopt_functions(model_key, functions);
    return compiled;
end
$$;
