-- How a fact over models meets its inputs, in words: "lines x orders, found by order_id". An equality of two columns is
-- named by the one that refers to the other.
create or replace function cdc.describe_joins(compiled jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    with terms as (
        select
            term.ordinal,
            (
                select string_agg(
                    case
                        when ordinal = 1 then ''
                        when compiled #> '{joins,nullable}' ? number then ' left join '
                        else ' x '
                    end || (compiled #>> array['inputs', (number::integer - 1)::text, 'name']),
                    '' order by ordinal
                )
                from jsonb_array_elements_text(term.value) with ordinality as one (number, ordinal)
            ) as names
        from jsonb_array_elements(compiled #> '{joins,terms}') with ordinality as term (value, ordinal)
    )

    select
        (select string_agg(distinct_terms.names, ', ' order by distinct_terms.ordinal)
            from (select terms.names, min(terms.ordinal) as ordinal from terms group by terms.names) as distinct_terms)
        || coalesce(', found by ' || (
            select string_agg(named.name, ', ' order by named.ordinal)
            from (
                select
                    case
                        when is_key.left_one and pair.value ->> 1 <> pair.value ->> 3 then pair.value ->> 3
                        else pair.value ->> 1
                    end as name,
                    min(pair.ordinal) as ordinal
                from jsonb_array_elements(compiled #> '{joins,equal}') with ordinality as pair (value, ordinal)
                cross join lateral (
                    select exists (
                        select from jsonb_array_elements(compiled -> 'inputs' -> ((pair.value ->> 0)::integer - 1) -> 'key') as key
                        where key.value ->> 'name' = pair.value ->> 1
                    ) as left_one
                ) as is_key
                group by 1
            ) as named
        ), '')
$$;
