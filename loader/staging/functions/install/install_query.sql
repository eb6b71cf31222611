-- dbt calls this to install a model that is a query, in its own transaction and with its own rights: read the query,
-- make the table where there is none, make the routines, and register them: from then on the slot's loader follows what
-- it needs. `relations` names the sources as source_columns takes them, `listed` is rejected_changes as SQL writes it.
create or replace function cdc.install_query(
    slot text, model_schema text, model_table text, model_name text, query text, relations jsonb, options jsonb,
    listed text, is_refresh boolean, project text default null, target_schema text default null
) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp set quote_all_identifiers = off set jit = off as $$
declare
    sources constant jsonb := cdc.source_columns(slot, relations);
    read constant jsonb := cdc.compile_model(slot, model_name, query, sources, options);
    is_new constant boolean := to_regclass(format('%I.%I', model_schema, model_table)) is null;
    -- Null where it needs other rows than it has.
    renamed constant jsonb := case when not is_new then cdc.same_rows(slot, model_name, query, sources, options, read) end;
    compiled constant jsonb := cdc.note_renamed(read, renamed);
    model_key constant text := model_schema || '.' || model_table;
    relation constant text := format('%I.%I', model_schema, model_table);
    names constant jsonb := (
        select jsonb_object_agg(does, cdc.routine_name(model_schema, model_table, does, compiled))
        from unnest('{apply,deltas,totals,merge,by_hash}'::text[]) as does
    );
    functions constant text[] := array(
        select (names ->> own.does) || own.takes
        from (
            values
            ('apply', '(text, text, cdc.change[], integer[], integer[], text[], anyarray)', true),
            ('deltas', '(cdc.change[], integer[], integer[])', compiled ->> 'kind' = 'rows'),
            ('deltas', '(cdc.change[], integer[], integer[], text, text, text[], integer[])', compiled ->> 'kind' <> 'rows'),
            ('totals', '(text, text, cdc.change[], integer[], integer[], text[], integer[], text)', compiled ->> 'kind' <> 'rows'),
            ('merge', '(text, text, cdc.change[], integer[], integer[], text[], integer[], text, anyarray)', compiled ->> 'kind' <> 'rows'),
            ('by_hash', '(text, text, cdc.change[], integer[], integer[], text[], integer[], text, anyarray)', cdc.key_hash(compiled) is not null)
        ) as own (does, takes, is_made)
        where own.is_made
    );
begin
    perform cdc.require_table(relation, model_key);
    perform cdc.keep_rejected_changes(listed);
    if is_new then
        execute cdc.write_table(compiled, relation, format('uix_%s_dimensions', model_table));
    elsif renamed is not null then
        -- Before its table, as an apply does.
        perform pg_advisory_xact_lock(cdc.lock_key('model', model_key));
        perform cdc.widen_table(relation::regclass, (
            select jsonb_agg(jsonb_build_array(one.name, one.sql) order by one.ordinal) from cdc.column_definitions(compiled) as one
        ));
    end if;
    -- What they return may have other columns now.
    execute format('drop function if exists %s', array_to_string(functions[2:], ', '));
    execute cdc.write_functions(compiled, names, relation, listed, model_key, model_name, query);
    perform cdc.install_model(
        slot, model_schema, model_table, model_name, compiled,
        jsonb_build_object('text', query, 'sources', sources, 'options', options), functions[1],
        cdc.list_needs(compiled), is_refresh or is_new, renamed is not null, coalesce(options ->> 'engine', 'database'), functions, project,
        target_schema
    );
    perform cdc.install_changes(coalesce(project, slot), model_schema, model_table, model_name, compiled, options ->> 'changes');
    perform cdc.drop_unused_indexes(model_schema);
    perform cdc.adopt_functions(model_key, cdc.model_functions(slot, model_key));
    return compiled;
end
$$;
