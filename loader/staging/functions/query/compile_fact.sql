-- The part of compile_query for a query that groups or aggregates. A column that is one sum or count is kept under its own
-- name. What other expressions need is kept in last columns, which `select *` alone shows.
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
    keys jsonb := '[]';
    kept jsonb := '[]';
    derived jsonb := '[]';
    entry jsonb;
    pieces text[];
    expression text;
    one record;
    number_of integer;
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
    -- First the columns that are one aggregate: what is kept of others may be theirs.
    for one in
        select listed.*
        from (
            select
                names[series.place] as name,
                columns -> (series.place - 1) ->> 'type' as type,
                tree -> 'targetList' -> (numbers[series.place] - 1) ->> 'ressortgroupref' = any (grouped) as is_key,
                own.entry,
                cut.pieces,
                coalesce(
                    cut.pieces[1] = '' and cut.pieces[3] = '' and cut.pieces[2] !~ '^avg\(' and cut.pieces[4] is null,
                    false
                ) as is_single,
                series.place
            from generate_series(1, cardinality(numbers)) as series (place)
            cross join lateral (select parts.entries[numbers[series.place]] as entry) as own
            cross join lateral (
                select cdc.find_aggregates(own.entry, array['count', 'sum', 'avg']) as pieces
            ) as cut
        ) as listed
        order by listed.is_single desc, listed.place
    loop
        if one.is_key then
            keys := keys || jsonb_build_object('name', one.name, 'type', one.type, 'expression', one.entry);
            continue;
        elsif cdc.has_select(one.entry) then
            raise exception '%: a sub-select over totals.', one.name
                using errcode = 'WL003', hint = 'Compute it in a view, or in the query that reads the model.';
        end if;
        if one.is_single and cdc.kept_name(kept, one.pieces[2]) is null then
            kept := kept || jsonb_build_object('name', one.name, 'expression', one.pieces[2]);
            continue;
        end if;
        -- Each aggregate becomes what is kept for it.
        expression := '';
        for number_of in 1..cardinality(one.pieces) loop
            if number_of % 2 = 1 then
                expression := expression || one.pieces[number_of];
                continue;
            end if;
            kept := cdc.keep_aggregate(kept, regexp_replace(one.pieces[number_of], '^avg\(', 'sum('));
            if one.pieces[number_of] ~ '^avg\(' then
                kept := cdc.keep_aggregate(kept, regexp_replace(one.pieces[number_of], '^avg\(', 'count('));
                expression := expression || format(
                    '((%I)::numeric / nullif(%I, 0))',
                    cdc.kept_name(kept, regexp_replace(one.pieces[number_of], '^avg\(', 'sum(')),
                    cdc.kept_name(kept, regexp_replace(one.pieces[number_of], '^avg\(', 'count('))
                );
            else
                expression := expression || format('%I', cdc.kept_name(kept, one.pieces[number_of]));
            end if;
        end loop;
        derived := derived || jsonb_build_object('name', one.name, 'type', one.type, 'expression', expression);
    end loop;
    -- How many rows a group has, and how many values a sum.
    kept := cdc.keep_aggregate(kept, 'count(*)');
    for entry in select value from jsonb_array_elements(kept) loop
        if entry ->> 'expression' ~ '^sum\(' then
            kept := cdc.keep_aggregate(kept, regexp_replace(entry ->> 'expression', '^sum\(', 'count('));
        end if;
    end loop;
    return jsonb_build_object(
        'kind', 'fact',
        'is_total', grouped = '{}',
        'names', to_jsonb(names),
        'keys', (select coalesce(jsonb_agg(value order by array_position(names, value ->> 'name')), '[]') from jsonb_array_elements(keys)),
        'kept', (
            select jsonb_agg(
                value - 'expression' || case
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
        'query', place.before || parts.head || e'\n' || (
            select string_agg(format('    %s as %I', value ->> 'expression', value ->> 'name'), e',\n' order by ordinality)
            from jsonb_array_elements(keys || kept) with ordinality
        ) || e'\n' || parts.tail || place.after
    );
end
$$;
