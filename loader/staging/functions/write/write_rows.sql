-- SQL: the routine that applies a batch to a rows model. `deltas` is the function of write_row_deltas.
create or replace function cdc.write_rows(
    compiled jsonb, routine text, deltas text, relation text, listed text, model_key text, model_name text
) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    has_old_rows constant boolean := (compiled ->> 'has_old_rows')::boolean;
    table_name constant text := compiled #>> '{sources,0,table}';
    columns constant text[] := array(select format('%I', one.name) from cdc.list_columns(compiled) as one order by one.ordinal);
    keys constant text[] := array(
        select format('%I', value ->> 'name')
        from jsonb_array_elements(compiled -> 'keys') with ordinality as one (value, ordinal) order by ordinal
    );
    needs constant jsonb := jsonb_path_query_array(compiled, '$.sources[0].columns[*] ? (@.is_needed == true).name');
    -- What the old row of a change has to have, and a new one that is not an insert's: the rest may be what it was.
    key_nos constant text := (
        select format('array[%s]', string_agg(format('($5)[1][%s]', needed.ordinal), ', ' order by own.ordinal))
        from jsonb_array_elements(compiled -> 'identity') with ordinality as own (name, ordinal)
        inner join jsonb_array_elements(needs) with ordinality as needed (name, ordinal) using (name)
    );
begin
    if (compiled ->> 'needs_old_rows')::boolean and not has_old_rows then
        raise exception 'The primary key of % is deferrable: two rows may have one key for a moment.', table_name
            using errcode = 'WL003', hint = format('Instead: `alter table %s replica identity full;`, then `loader setup`.', table_name);
    end if;
    return cdc.fill(
        cdc.rows_template(),
        jsonb_build_object(
            'routine', routine, 'pins', cdc.routine_pins(compiled), 'relation', relation,
            'reshape', cdc.write_reshape(compiled, relation),
            'listed_name', quote_literal(listed), 'model_key', quote_literal(model_key), 'model_name', quote_literal(model_name),
            'table_name', quote_literal(table_name),
            'deltas_name', quote_literal(deltas),
            'baseline', cdc.write_long(compiled, relation, format(
                e'insert into %s (%s)\nselect\n    %s\nfrom cdc.baseline_group as counted\n'
                'where counted.slot_name = $2 and counted.model_name = %L and counted.part <> all (coalesce($6, ''{}''));',
                relation, array_to_string(columns, ', '), (
                    select string_agg(cdc.write_whole(format('counted.dimensions[%s]::%s', one.ordinal, one.type), one.exact, relation), e',\n    ' order by one.ordinal)
                    from cdc.list_columns(compiled) as one
                ), model_name
            )),
            'room', coalesce('continue when ' || cdc.write_room(compiled, relation) || ';', ''),
            'is_listed', case when has_old_rows then 'false' else 'true' end,
            'left_by', case when has_old_rows then 'cdc.net_rows' else 'cdc.last_rows' end,
            'key_nos', case when has_old_rows then '' else ', ' || key_nos end,
            'reject', case when has_old_rows then format('cdc.reject($3, %L, $4, $5)', jsonb_build_array(needs)) else format(
                'cdc.reject(array(select change from unnest($3) as change where change.action = ''I''), %L, $4, $5) || '
                'cdc.reject(array(select change from unnest($3) as change where change.action is distinct from ''I''), %L, $4, array[%s])',
                jsonb_build_array(needs), jsonb_build_array(compiled -> 'identity'), key_nos
            ) end,
            'fill', case when has_old_rows then '' else cdc.write_fill(compiled, relation, deltas) end,
            'merge', cdc.write_row_merge(compiled, relation, deltas, columns, keys)
        )
    );
end
$$;
