-- SQL: the same for a model on the right of LEFT JOINs, by which the result is no sum: its neighbour's rows that have a
-- changed value in the joined column are counted before and after. Where it has several neighbours, all rows are.
create or replace function cdc.write_left_terms(compiled jsonb, model text, numbers integer[]) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    links constant jsonb := compiled #> '{joins,nullable}';
    held constant jsonb := cdc.held_columns(compiled, model);
    names constant text := (
        select string_agg(format('%I', value ->> 'name'), ', ' order by place)
        from jsonb_array_elements(held -> 'columns') with ordinality as one (value, place)
    );
    own_columns constant text := (
        select string_agg(format('%I', link.value ->> 0), ', ' order by place)
        from jsonb_array_elements(links -> numbers[1]::text) with ordinality as link (value, place)
    );
    -- The neighbour, where all places have the same one and are found by the same columns.
    near integer := (
        select case when count(distinct own.columns) = 1 then min(own.near) end
        from unnest(numbers) as n
        cross join lateral (
            select array_agg(link.value ->> 0 order by place) as columns, min(link.value ->> 1)::integer as near
            from jsonb_array_elements(links -> n::text) with ordinality as link (value, place)
        ) as own
        having count(distinct own.near) = 1 and count(own.near) = count(*)
    );
    near_context text := '';
    context text;
    given jsonb := '{}'::jsonb;
    place_condition text := 'stored.ctid = any (array(select near.place from near))';
begin
    if near is not null then
        near_context := 'near as materialized (' || (
            select string_agg(format(
                'select stored.ctid as place, %s from %s as stored where (%s) in (select %s from changed)',
                cdc.near_columns(links, numbers, 'stored.'), cdc.input_relation(compiled, near), own.columns, own_columns
            ), ' union ' order by n)
            from unnest(numbers) as n
            cross join lateral (
                select string_agg(format('stored.%I', link.value ->> 2), ', ' order by place) as columns
                from jsonb_array_elements(links -> n::text) with ordinality as link (value, place)
            ) as own
        ) || e'),\n\n    ';
    end if;
    context := cdc.fill(
$template${near}after_ as materialized (
        select {columns}, row({stored_names})::text as waltally_text from {relation} as stored
        where {wanted}
    ),

    before_ as materialized (
        select {names} from after_ where waltally_text not in (select row({names})::text from changed where waltally_sign = 1)
        union all
        select {names} from changed where waltally_sign = -1
    )$template$,
        jsonb_build_object(
            'near', near_context,
            -- Without a neighbour the left side is read whole, and what does not change there cancels out.
            'wanted', case
                when near is not null then format('(%s) in (%s)', own_columns, (
                    select string_agg(format('select %s from near', own.columns), ' union all ' order by n)
                    from unnest(numbers) as n
                    cross join lateral (
                        select string_agg(quote_ident(link.value ->> 2), ', ' order by place) as columns
                        from jsonb_array_elements(links -> n::text) with ordinality as link (value, place)
                    ) as own
                ))
                when cardinality(numbers) = 1 then format('(%s) in (select %s from changed)', own_columns, own_columns)
                else 'true'
            end,
            'columns', cdc.model_columns(held, 'stored'),
            'names', names,
            'stored_names', (select string_agg(format('stored.%I', value ->> 'name'), ', ' order by place)
                from jsonb_array_elements(held -> 'columns') with ordinality as one (value, place)),
            'relation', format('%I.%I', held ->> 'schema', held ->> 'name'),
            'own_columns', own_columns
        )
    );
    -- From there to a side that no LEFT JOIN extends with nulls.
    while near is not null loop
        given := given || jsonb_build_object(near::text, format(
            'select %s from %s as stored where %s', cdc.model_columns(compiled -> 'inputs' -> (near - 1), 'stored'), cdc.input_relation(compiled, near), place_condition
        ));
        exit when links #>> array[near::text, '0', '1'] is null;
        place_condition := (
            select format(
                '(%s) in (select %s from %s as stored where %s)',
                string_agg(format('stored.%I', link.value ->> 2), ', ' order by place), string_agg(format('stored.%I', link.value ->> 0), ', ' order by place),
                cdc.input_relation(compiled, near), place_condition
            )
            from jsonb_array_elements(links -> near::text) with ordinality as link (value, place)
        );
        near := (links #>> array[near::text, '0', '1'])::integer;
    end loop;
    given := given || (
        select jsonb_object_agg(n, format(
            'select %1$s from after_ where signs.sign = 1 union all select %1$s from before_ where signs.sign = -1',
            cdc.changed_columns(compiled -> 'inputs' -> (n - 1))
        ))
        from unnest(numbers) as n
    );
    return format('with %s %s', context, cdc.write_term(compiled, '(select sign from (values (1), (-1)) as both_ (sign))', cdc.write_inputs(compiled, given, numbers[1:1])));
end
$$;
