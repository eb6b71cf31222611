-- The indexes by which a roll-up finds the rows of a group: in the model below and, where it replaces rows, in its own
-- table, `relation`.
create or replace function cdc.group_indexes(compiled jsonb, relation text) returns table (relation text, columns text)
language sql stable set search_path = pg_catalog, pg_temp as $$
    with input as (
        select format('%I.%I', compiled #>> '{inputs,0,schema}', compiled #>> '{inputs,0,name}') as relation
    ),

    of_group as (
        select array(
            select unnest(cdc.null_safe(own.expression, key.type, key.is_never_null))
            from cdc.group_keys(compiled) as key
            cross join lateral (select cdc.in_base(compiled, key.sought) as expression) as own
            where cdc.never_fails(cdc.in_base(compiled, key.expression))
            order by key.ordinal
        ) as keys
        where compiled ? 'select' and not exists (select from jsonb_array_elements_text(compiled #> '{select,keys}') as key (expression)
            where cdc.in_base(compiled, key.expression) is null
        )
    ),

    of_values as (
        select distinct cdc.bounded(own.expression, one.value ->> 'value_type') as expression
        from jsonb_array_elements(compiled -> 'state_columns') as one
        cross join lateral (select cdc.in_base(compiled, (cdc.split_call(one.value ->> 'again')).arguments) as expression) as own
        where (one.value ->> 'again' ~ '^count' or one.value ->> 'value_type' = 'numeric' or cdc.is_short(one.value ->> 'value_type')) and cdc.never_fails(own.expression)
    )

    select input.relation, array_to_string(of_group.keys || of_values.expression, ', ')
    from input
    cross join of_group
    left join of_values on of_values.expression is not null
    where of_group.keys <> '{}' or of_values.expression is not null
    union
    select own.relation, array_to_string(own.columns, ', ')
    from input
    cross join lateral (values
        (input.relation, cdc.group_forms(compiled, 'column') || array(select jsonb_array_elements_text(compiled -> 'order'))),
        (group_indexes.relation, cdc.group_forms(compiled, 'name'))
    ) as own (relation, columns)
    where compiled ? 'group'
$$;
