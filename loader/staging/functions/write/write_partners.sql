-- SQL: of a model on the right of a LEFT JOIN all rows that a changed row's neighbours meet, after and before.
create or replace function cdc.write_partners(compiled jsonb, numbers integer[], has_neighbour boolean, input jsonb)
returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$after_ as materialized (
    select {columns}, row({stored_names})::text as waltally_text from {relation} as stored
    where {wanted}
),

before_ as materialized (
    select {names} from after_ where waltally_text not in (select row({names})::text from changed where waltally_sign = 1)
    union all
    select {names} from changed where waltally_sign = -1
)$template$,
        jsonb_build_object(
            -- Without a neighbour the left side is read whole, and what does not change there cancels out.
            'wanted', case
                when has_neighbour then format('(%s) in (%s)', own.columns, (
                    select string_agg(format('select %s from near', cdc.link_columns(compiled, n, 2)), ' union all ' order by n)
                    from unnest(numbers) as n
                ))
                when cardinality(numbers) = 1 and not compiled #> array['joins', 'nullable', numbers[1]::text] @? 'strict $[*] ? (@[3] == true)'
                    then format('(%s) in (select %s from changed)', own.columns, own.columns)
                else 'true'
            end,
            'columns', cdc.model_columns(input, 'stored'),
            'names', cdc.write_names(input -> 'columns', '%I'),
            'stored_names', cdc.write_names(input -> 'columns', 'stored.%I'),
            'relation', cdc.input_relation(compiled, numbers[1])
        )
    )
    from cdc.link_columns(compiled, numbers[1], 0) as own (columns)
$$;
