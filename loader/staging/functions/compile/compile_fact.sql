-- The part of compile_query for a query that groups or aggregates. A column that is one sum or count is kept under
-- its own name. What other expressions need is kept in last columns, which `select *` alone shows.
--
-- steps    how to get from the outer SELECT to the one that groups, `tree`: see unwrap_query
-- names    of each column that the query gives; `numbers` has its place in the list of the SELECT that groups
create or replace function cdc.compile_fact(
    printed text, columns jsonb, tree jsonb, steps jsonb, names text[], numbers integer[]
) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    place record := cdc.inner_select(printed, steps);
    parts record := cdc.split_select(place.inner_sql);
    grouped text[] := array(
        select clause ->> 'tleSortGroupRef' from jsonb_array_elements(nullif(tree -> 'groupClause', 'null')) as clause
    );
    keys jsonb := jsonb '[]';
    kept jsonb := jsonb '[]';
    derived jsonb := jsonb '[]';
    more_groups text;
    entry jsonb; expression text; average text; sum_of text; count_of text;
    one record;
begin
    if exists (
        select from jsonb_array_elements(tree -> 'targetList') as target
        where
            target ->> 'ressortgroupref' = any (grouped)
            and (target ->> 'resjunk' = 'true' or not (target ->> 'resno')::integer = any (numbers))
    ) then
        raise exception 'A grouped expression is not selected: two groups could look alike.'
            using errcode = 'WL003', hint = 'Select every expression of GROUP BY.';
    end if;
    -- Beside a table's primary key its other columns may be selected: their groups are the same.
    select
        coalesce(jsonb_agg(jsonb_build_object(
            'name', names[series.place],
            'type', columns -> (series.place - 1) ->> 'type',
            'expression', parts.entries[numbers[series.place]],
            'is_constant', not target @? 'strict $.** ? (@._ == "VAR")'
        ) order by series.place), '[]'),
        coalesce(string_agg(
            ', ' || parts.entries[numbers[series.place]], '' order by series.place
        ) filter (where not target ->> 'ressortgroupref' = any (grouped)), '')
    into keys, more_groups
    from generate_series(1, cardinality(numbers)) as series (place)
    cross join lateral (select tree -> 'targetList' -> (numbers[series.place] - 1) as target) as own
    where
        target ->> 'ressortgroupref' = any (grouped)
        or not target @? 'strict $.** ? (@._ == "AGGREF")' and target @? 'strict $.** ? (@._ == "VAR")';
    -- First the columns that are one aggregate: what is kept of others may be theirs.
    for one in
        select
            names[series.place] as name,
            (columns -> (series.place - 1)) - 'is_loose' as column_of,
            own.entry,
            own.pieces,
            own.is_anew,
            coalesce(
                own.pieces[1] = '' and own.pieces[3] = '' and (own.is_anew or own.pieces[2] !~ '^avg\((?!DISTINCT\s)') and own.pieces[4] is null, false
            ) as is_single
        from generate_series(1, cardinality(numbers)) as series (place)
        cross join lateral (
            select
                parts.entries[numbers[series.place]] as entry,
                cdc.find_aggregates(parts.entries[numbers[series.place]]) as pieces,
                cdc.has_other_sums(tree -> 'targetList' -> (numbers[series.place] - 1)) as is_anew
        ) as own
        where not keys @> jsonb_build_array(jsonb_build_object('name', names[series.place]))
        order by is_single desc, series.place
    loop
        if cdc.has_select(one.entry) then
            raise exception '%: a sub-select over totals.', one.name
                using errcode = 'WL003', hint = 'Compute it in a view, or in the query that reads the model.';
        end if;
        if one.is_single and cdc.kept_place(kept, one.pieces[2]) is null then
            kept := kept || jsonb_build_object('name', one.name, 'expression', one.pieces[2], 'is_anew', one.is_anew);
            continue;
        end if;
        -- Each aggregate becomes what is kept for it.
        expression := '';
        for number_of in 1..cardinality(one.pieces) loop
            if number_of % 2 = 1 then
                expression := expression || one.pieces[number_of];
                continue;
            end if;
            average := case when one.is_anew then '^$' else '^avg\((?!DISTINCT\s)' end;
            sum_of := regexp_replace(one.pieces[number_of], average, 'sum(');
            count_of := regexp_replace(one.pieces[number_of], average, 'count(');
            kept := cdc.keep_aggregate(cdc.keep_aggregate(kept, sum_of, one.is_anew), count_of, one.is_anew);
            expression := expression || case
                when sum_of = count_of then 'waltally_kept_' || cdc.kept_place(kept, sum_of)::text
                else format('((waltally_kept_%s)::numeric / nullif(waltally_kept_%s, 0))', cdc.kept_place(kept, sum_of), cdc.kept_place(kept, count_of))
            end;
        end loop;
        derived := derived || (one.column_of || jsonb_build_object('name', one.name, 'expression', cdc.name_keys(expression, keys)));
    end loop;
    -- How many rows a group has, and how many values a sum.
    kept := cdc.keep_aggregate(kept, 'count(*)');
    for entry in select value from jsonb_array_elements(kept) loop
        if entry ->> 'expression' ~ '^sum\((?!DISTINCT\s)' and not (entry ->> 'is_anew')::boolean then
            kept := cdc.keep_aggregate(kept, regexp_replace(entry ->> 'expression', '^sum\(', 'count('));
        end if;
    end loop;
    return jsonb_build_object(
        'kind', 'fact',
        'is_total', grouped = '{}',
        'names', to_jsonb(names),
        'keys', keys,
        'kept', (
            select jsonb_agg(
                value - 'expression' - 'is_anew' || case
                    -- Not added up: counted by value, or computed again.
                    when (value ->> 'is_anew')::boolean or value ->> 'expression' !~ '^(count|sum)\((?!DISTINCT\s)'
                        then jsonb_build_object('again', value -> 'expression')
                    when value ->> 'expression' ~ '^sum\('
                        then jsonb_build_object('counted_by', cdc.kept_name(kept, regexp_replace(value ->> 'expression', '^sum\(', 'count(')))
                    else '{}'
                end
                order by ordinality
            )
            from jsonb_array_elements(kept) with ordinality
        ),
        'derived', derived,
        'rows', cdc.kept_name(kept, 'count(*)'),
        'select', jsonb_build_object(
            'before', place.before || parts.head, 'tail', parts.tail, 'after', place.after, 'keys', jsonb_path_query_array(keys, '$[*].expression')
        ),
        'query', place.before || parts.head || cdc.write_entries(keys || kept) || parts.tail || more_groups || place.after,
        -- Without what is not added up.
        'added', place.before || parts.head || cdc.write_entries(keys || (
            select jsonb_agg(value order by place_no) from jsonb_array_elements(kept) with ordinality as one (value, place_no)
            where value ->> 'expression' ~ '^(count|sum)\((?!DISTINCT\s)' and not (value ->> 'is_anew')::boolean
        )) || parts.tail || more_groups || place.after
    );
end
$$;
