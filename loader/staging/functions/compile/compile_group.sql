-- The part of compile_query for a roll-up that keeps the rows of the result as they are, and replaces those of a group
-- of which a row has changed: see find_group.
--
-- group  by what such rows are found: {"name": the column of the result, "column": that of the model, "type"}
-- order  of DISTINCT ON, what an index sorts the rows of a group by, as SQL: the first one is its row of the result
create or replace function cdc.compile_group(
    printed text, columns jsonb, nodes cdc.tree_node[], input jsonb, core text, kind text, grouped text[],
    top_path text, numbers integer[]
) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    key_names constant text := (select string_agg(format('`%s`', name), ', ') from jsonb_array_elements_text(input -> 'key') as key (name));
    -- Which column of the model each column of the result is.
    passed constant jsonb := (
        select coalesce(jsonb_object_agg(own.value ->> 'name', a.attname), '{}')
        from jsonb_array_elements(columns) with ordinality as own (value, ordinal)
        inner join cdc.follow_columns(nodes) as followed on followed.variable = format('q.targetList.%s.expr', own.ordinal)
        inner join pg_attribute as a on a.attrelid = followed.relation and a.attnum = followed.column_number
    );
    parting constant text[] := array(
        select clause.fields ->> 'tleSortGroupRef' from unnest(nodes) as clause
        where clause.parent = core and clause.path ~ '\.(groupClause|distinctClause)\.[0-9]+$'
    );
    shared jsonb;
    keys text[];
    first_by jsonb;
begin
    select jsonb_agg(jsonb_build_object('name', own.key, 'column', own.value, 'type', listed.value -> 'type') order by own.key) into shared
    from jsonb_each_text(passed) as own
    inner join jsonb_array_elements(input -> 'columns') as listed on listed.value ->> 'name' = own.value
    where own.value = any (grouped);
    if shared is null then
        raise exception 'Nothing says which rows of % belong together.', input ->> 'name' using errcode = 'WL003', hint = format(
            'Select a column of %s by which the query groups, or by which each window has a PARTITION BY.', input ->> 'name'
        );
    elsif kind = 'window' then
        keys := array(
            select (select min(own.key) from jsonb_each_text(passed) as own where own.value = key.name)
            from jsonb_array_elements_text(input -> 'key') as key (name)
        );
        if '{}' = keys or array_position(keys, null) > 0 then
            raise exception 'The key of % is not selected: nothing tells its rows apart.', input ->> 'name'
                using errcode = 'WL003', hint = format('Select %s.', key_names);
        elsif exists (
            select from unnest(nodes) as entry
            where entry.type = 'RANGETBLENTRY' and entry.fields ->> 'rtekind' in ('3', '4', '5') and entry.path !~ '\.subselect\.'
        ) then
            raise exception 'Windows over rows that are joined with values: nothing tells those of one row apart.'
                using errcode = 'WL003', hint = 'Join them in the model below, or in the query that reads the model.';
        end if;
    else
        keys := array(
            select columns -> (number.ordinal::integer - 1) ->> 'name'
            from unnest(numbers) with ordinality as number (own, ordinal)
            inner join unnest(nodes) as target on target.path = format('%s.targetList.%s', core, number.own)
            where target.fields ->> 'ressortgroupref' = any (parting)
            order by number.ordinal
        );
        if top_path <> core or cardinality(keys) < cardinality(parting) then
            raise exception 'A grouped expression is not selected: two groups could look alike.'
                using errcode = 'WL003', hint = 'Select every expression of GROUP BY, or of DISTINCT ON, and put nothing around it.';
        end if;
    end if;
    if kind = 'first' and jsonb_array_length(shared) = cardinality(parting) then
        first_by := cdc.order_of_first(nodes, core, input, parting);
    end if;
    return jsonb_build_object(
        'kind', 'roll-up', 'is_total', false, 'names', jsonb_path_query_array(columns, '$[*].name'), 'group', shared,
        'keys', (select jsonb_agg(jsonb_build_object('name', name) order by ordinal) from unnest(keys) with ordinality as key (name, ordinal)),
        'state_columns', (
            select coalesce(jsonb_agg(jsonb_build_object('name', value -> 'name', 'again', 'anew') order by ordinal), '[]')
            from jsonb_array_elements(columns) with ordinality as one (value, ordinal) where value ->> 'name' <> all (keys)
        ),
        'expression_columns', '[]'::jsonb,
        'query', format('select * from (%s) as query', rtrim(printed, e' \n;'))
    ) || case when first_by is null then '{}' else jsonb_build_object('order', first_by) end;
end
$$;
