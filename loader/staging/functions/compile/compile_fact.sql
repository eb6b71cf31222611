-- The part of compile_query for a query that groups or aggregates. A column that is one sum or count is kept under
-- its own name. What other expressions need is kept in last columns, which `select *` alone shows.
--
-- steps    how to get from the outer SELECT to the one that groups, `tree`: see unwrap_query
-- names    of each column that the query gives; `numbers` has its ordinal in the list of the SELECT that groups
create or replace function cdc.compile_fact(
    printed text, columns jsonb, tree jsonb, steps jsonb, names text[], numbers integer[]
) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    outer_part record := cdc.inner_select(printed, steps);
    parts record := cdc.split_select(outer_part.inner_sql);
    keys jsonb := cdc.find_keys(columns, tree, parts.entries, names, numbers);
    head text := outer_part.before || parts.head;
    tail text := parts.tail || coalesce((
        select string_agg(', ' || (key ->> 'expression'), '' order by number)
        from jsonb_array_elements(keys) with ordinality as one (key, number)
        where not (key ->> 'is_grouped')::boolean
    ), '') || outer_part.after;
    state_columns jsonb := jsonb '[]';
    expression_columns jsonb := jsonb '[]';
    expression text;
    one record;
begin
    -- First the columns that are one aggregate: what is kept of others may be theirs.
    for one in
        select own.*, (pieces[1] = '' and pieces[3] = '' and pieces[4] is null and (is_anew or pieces[2] !~ '^avg\((?!DISTINCT\s)')) is true as is_single
        from unnest(names, numbers) with ordinality as listed (name, number, ordinal)
        cross join lateral (
            select
                listed.name,
                listed.ordinal,
                parts.entries[listed.number] as entry,
                cdc.find_aggregates(parts.entries[listed.number]) as pieces,
                -- A sum or an average that is not added to, as of floats or intervals.
                exists (
                    select from jsonb_path_query(tree -> 'targetList' -> (listed.number - 1), 'strict $.** ? (@._ == "AGGREF")') as call
                    inner join pg_proc as p on p.oid = (call ->> 'aggfnoid')::oid and p.proname in ('sum', 'avg') and not cdc.is_sum(p.oid)
                ) as is_anew
        ) as own
        where not keys @> jsonb_build_array(jsonb_build_object('name', listed.name))
        order by is_single desc, listed.ordinal
    loop
        if cdc.has_select(one.entry) then
            raise exception '%: a sub-select over totals.', one.name
                using errcode = 'WL003', hint = 'Compute it in a view, or in the query that reads the model.';
        elsif one.is_single and not state_columns @> jsonb_build_array(jsonb_build_object('expression', one.pieces[2])) then
            state_columns := (cdc.keep_aggregate(state_columns, one.pieces[2], one.is_anew, one.name)).state_columns;
        else
            select own.state_columns, own.expression into state_columns, expression from cdc.keep_totals(state_columns, one.pieces, one.is_anew) as own;
            expression_columns := expression_columns || (
                (columns -> (one.ordinal::integer - 1)) - 'is_loose'
                || jsonb_build_object('name', one.name, 'expression', cdc.name_keys(expression, keys))
            );
        end if;
    end loop;
    -- How many rows a group has, and how many values a sum.
    state_columns := (cdc.keep_aggregate(state_columns, 'count(*)', false)).state_columns;
    for expression in
        select value ->> 'expression' from jsonb_array_elements(state_columns) where (value ->> 'is_added')::boolean and value ->> 'expression' ~ '^sum\('
    loop
        state_columns := (cdc.keep_aggregate(state_columns, regexp_replace(expression, '^sum\(', 'count('), false)).state_columns;
    end loop;
    return jsonb_build_object(
        'kind', 'fact', 'is_total', tree -> 'groupClause' = 'null', 'names', to_jsonb(names), 'keys', keys,
        'expression_columns', expression_columns,
        'state_columns', (
            select jsonb_agg(
                value - 'expression' - 'is_added' || case
                    -- Not added up: counted by value, or computed again.
                    when not (value ->> 'is_added')::boolean then jsonb_build_object('again', value -> 'expression')
                    when counting.name is not null then jsonb_build_object('counted_by', counting.name)
                    else '{}'
                end
                order by number
            )
            from jsonb_array_elements(state_columns) with ordinality as own (value, number)
            left join lateral (
                select counts.value ->> 'name' as name from jsonb_array_elements(state_columns) as counts
                where own.value ->> 'expression' ~ '^sum\(' and counts.value ->> 'expression' = regexp_replace(own.value ->> 'expression', '^sum\(', 'count(')
            ) as counting on true
        ),
        'rows', jsonb_path_query_first(state_columns, '$[*] ? (@.expression == "count(*)").name'),
        'select', jsonb_build_object('before', head, 'tail', parts.tail, 'after', outer_part.after, 'keys', jsonb_path_query_array(keys, '$[*].expression')),
        'query', head || cdc.write_entries(keys || state_columns) || tail,
        -- Without what is not added up.
        'added', head || cdc.write_entries(keys || jsonb_path_query_array(state_columns, '$[*] ? (@.is_added == true)')) || tail
    );
end
$$;
