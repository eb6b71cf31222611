-- dbt calls this to install a model over models, in its own transaction and with its own rights: as install_query,
-- whose arguments it takes, with the project's name for the slot. The next apply fills it.
create or replace function cdc.install_downstream(
    project text, model_schema text, model_table text, model_name text, query text, relations jsonb, options jsonb,
    listed text, is_refresh boolean
) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp set quote_all_identifiers = off as $$
declare
    compiled constant jsonb := cdc.compile_query(query, cdc.model_inputs(relations), options);
    model_key constant text := model_schema || '.' || model_table;
    relation constant text := format('%I.%I', model_schema, model_table);
    routine constant text := cdc.routine_name(model_schema, model_table, 'apply', compiled);
    signature constant text := routine || '(text, text, anyarray, anyarray, anycompatiblearray)';
    is_new constant boolean := to_regclass(relation) is null;
begin
    perform cdc.require_table(relation, model_key);
    if is_new then
        execute cdc.write_table(compiled, relation, format('uix_%s_dimensions', model_table));
    end if;
    execute cdc.write_downstream(compiled, routine, relation);
    perform cdc.register_downstream(
        model_key, model_name, project, compiled, signature, cdc.needed_indexes(compiled, relation), is_refresh or is_new
    );
    perform cdc.install_changes(project, model_schema, model_table, model_name, compiled, options ->> 'changes');
    perform cdc.drop_unused_indexes(model_schema);
    perform cdc.adopt_functions(model_key, array[signature]);
    return compiled;
end
$$;
