-- SQL: the same for a model on the right of LEFT JOINs, by which the result is no sum: its neighbour's rows that have a
-- changed value in the joined column are joined before and after. Where it has several neighbours, all rows are.
create or replace function cdc.write_left_terms(compiled jsonb, model text, numbers integer[]) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    links constant jsonb := compiled #> '{joins,nullable}';
    input constant jsonb := cdc.input_columns(compiled, model);
    own_columns constant text := cdc.link_columns(compiled, numbers[1], 0);
    -- The neighbour, where all places have the same one and are found by the same columns.
    near integer := (
        select case when count(distinct own.columns) = 1 then min(own.near) end
        from unnest(numbers) as n
        cross join lateral (
            select array_agg(link.value ->> 0 order by ordinal) as columns, min(link.value ->> 1)::integer as near
            from jsonb_array_elements(links -> n::text) with ordinality as link (value, ordinal)
        ) as own
        having count(distinct own.near) = 1 and count(own.near) = count(*)
    );
    near_context text := '';
    context text;
    given jsonb := '{}'::jsonb;
    ctid_condition text := 'stored.ctid = any (array(select near.waltally_ctid from near))';
begin
    if near is not null then
        near_context := 'near as materialized (' || (
            select string_agg(format(
                'select stored.ctid as waltally_ctid, %s from %s as stored where (%s) in (select %s from changed)',
                (
                    select string_agg(distinct format('stored.%I', link.value ->> 2), ', ')
                    from unnest(numbers) as m
                    cross join jsonb_array_elements(links -> m::text) as link (value)
                ),
                cdc.input_relation(compiled, near), cdc.link_columns(compiled, n, 2, 'stored.%I'), own_columns
            ), ' union ' order by n)
            from unnest(numbers) as n
        ) || e'),\n\n';
    end if;
    context := near_context || coalesce(
        case when cardinality(numbers) = 1 and compiled #> '{joins,plain}' @> to_jsonb(numbers) then cdc.write_witnesses(compiled, numbers[1], near, input) end,
        cdc.write_partners(compiled, numbers, near is not null, input)
    );
    -- From there to a side that no LEFT JOIN extends with nulls.
    while near is not null loop
        given := given || jsonb_build_object(near::text, format(
            'select %s from %s as stored where %s',
            cdc.model_columns(compiled -> 'inputs' -> (near - 1), 'stored'), cdc.input_relation(compiled, near), ctid_condition
        ));
        exit when links #>> array[near::text, '0', '1'] is null;
        ctid_condition := format(
            '(%s) in (select %s from %s as stored where %s)',
            cdc.link_columns(compiled, near, 2, 'stored.%I'), cdc.link_columns(compiled, near, 0, 'stored.%I'),
            cdc.input_relation(compiled, near), ctid_condition
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
    return format('with %s %s', context, cdc.write_term(compiled, '(select sign from (values (1), (-1)) as both_ (sign))', cdc.write_inputs(compiled, given, cdc.met_inputs(compiled, numbers, true))));
end
$$;
