-- What a person should know of the joins of a fact over models, a sentence each: where rows may multiply, and where a
-- change of one side reads the whole other side.
create or replace function cdc.join_notes(compiled jsonb) returns setof text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    with inputs as (
        select ordinal::integer as number, value ->> 'name' as name, jsonb_path_query_array(value, '$.key[*].name') as key
        from jsonb_array_elements(compiled -> 'inputs') with ordinality as one (value, ordinal)
    ),

    sides as (
        select (pair.value ->> 0)::integer as number, pair.value ->> 1 as name, (pair.value ->> 2)::integer as other
        from jsonb_array_elements(compiled #> '{joins,equal}') as pair
        union
        select (pair.value ->> 2)::integer, pair.value ->> 3, (pair.value ->> 0)::integer
        from jsonb_array_elements(compiled #> '{joins,equal}') as pair
    ),

    found as (
        select sides.number, sides.other, inputs.name, coalesce(jsonb_agg(sides.name) @> inputs.key, false) as is_whole
        from sides
        inner join inputs on inputs.number = sides.number
        group by sides.number, sides.other, inputs.name, inputs.key
    )

    (
        select format('ON holds neither the whole key of %s nor that of %s, so their rows may multiply', one.name, other.name)
        from found as one
        inner join found as other on other.number = one.other and other.other = one.number
        where one.number < other.number and not one.is_whole and not other.is_whole
        order by one.number, other.number
    )
    union all
    (
        select format('no column of %s is compared with one of another model by =, so each change of those reads the whole of it', inputs.name)
        from inputs
        where
            not exists (select from sides where sides.number = inputs.number)
            and exists (
                select from jsonb_array_elements(compiled #> '{joins,terms}') as term
                where term.value @> to_jsonb(inputs.number) and jsonb_array_length(term.value) > 1
            )
        order by inputs.number
    )
$$;
