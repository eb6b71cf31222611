-- The part of compile_query for a query without an aggregate: rows of one table, kept by its primary key.
--
-- identity        what the old row of each change has to carry: the primary key's columns
-- has_old_rows    whether it carries every column, as the source says: then the net of whole rows counts, in any
--                 order, else the last change of each key
-- needs_old_rows  whether it has to, because a key may belong to two rows for a moment
-- read_columns    those on which more depends than columns that are them as they are
-- large_columns   see there
create or replace function cdc.compile_rows(
    printed text, columns jsonb, nodes cdc.tree_node[], sources jsonb, options jsonb
) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    source constant jsonb := sources -> 0;
    key constant jsonb := coalesce(nullif(source -> 'key', 'null'), '[]');
    parts record := cdc.split_select(printed);
    selected jsonb;
begin
    perform cdc.refuse(nodes, array_agg(found.reason), array_agg(found.remedy), array_agg(found.path))
    from cdc.judge_rows(nodes, sources, options) as found;
    -- The columns with that of the table which each of them is, null of an expression, and the ordinal in the key.
    select jsonb_agg(
        jsonb_build_object('name', own.name, 'column', own.column_name, 'key_ordinal', case when own.is_first then key_column.ordinal end)
        order by own.ordinal
    )
    into selected
    from (
        select
            one.value -> 'name' as name,
            one.ordinal,
            of_table.name as column_name,
            row_number() over (partition by of_table.name order by one.ordinal) = 1 as is_first
        from jsonb_array_elements(columns) with ordinality as one (value, ordinal)
        left join cdc.follow_columns(nodes) as plain on plain.variable = format('q.targetList.%s.expr', one.ordinal)
        left join lateral (select source -> 'columns' -> (plain.column_number - 1) ->> 'name' as name) as of_table on true
    ) as own
    left join jsonb_array_elements_text(key) with ordinality as key_column (name, ordinal) on key_column.name = own.column_name;
    if key = '[]' then
        raise exception '% has no primary key: nothing tells its rows apart.', source ->> 'table'
            using errcode = 'WL003', hint = 'Instead: a primary key at the source, then `loader setup`; or a query that groups.';
    elsif not jsonb_path_query_array(selected, '$[*].column') @> key then
        raise exception 'The primary key of % is not selected as it is.', source ->> 'table' using
            errcode = 'WL003', hint = format(
                'Instead: %s among the columns, under any name.',
                (select string_agg(format('%I', name), ', ' order by ordinal) from jsonb_array_elements_text(key) with ordinality as one (name, ordinal))
            );
    end if;
    return jsonb_build_object(
        'kind', 'rows',
        'is_total', false,
        'names', jsonb_path_query_array(columns, '$[*].name'),
        'keys', (
            select jsonb_agg(jsonb_build_object('name', value -> 'name') order by value -> 'key_ordinal')
            from jsonb_array_elements(selected) where value -> 'key_ordinal' <> 'null'
        ),
        'state_columns', (
            select coalesce(jsonb_agg(value - 'key_ordinal' order by ordinal), '[]')
            from jsonb_array_elements(selected) with ordinality as one (value, ordinal) where value -> 'key_ordinal' = 'null'
        ),
        'expression_columns', '[]'::jsonb,
        'identity', key,
        'has_old_rows', coalesce((source ->> 'has_old_rows')::boolean, false),
        'needs_old_rows', coalesce((source ->> 'is_key_deferrable')::boolean, false),
        'read_columns', (
            select coalesce(jsonb_agg(distinct source -> 'columns' -> (read.column_number - 1) -> 'name'), '[]')
            from cdc.follow_columns(nodes) as read
            inner join unnest(nodes) as variable on variable.path = read.variable
            where
                variable.fields ->> 'varlevelsup' <> '0'
                or variable.path !~ '\.(targetList\.[0-9]+\.expr|joinaliasvars\.[0-9]+)$'
        ),
        'large_columns', cdc.large_columns(source, nodes, selected),
        'query', parts.head || e'\n' || (
            select string_agg(format('    %s as %I', parts.entries[ordinal], value ->> 'name'), e',\n' order by ordinal)
            from jsonb_array_elements(columns) with ordinality as one (value, ordinal)
        ) || e'\n' || parts.tail
    );
end
$$;
