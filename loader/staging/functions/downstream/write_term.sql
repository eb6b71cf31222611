-- SQL: the query over some inputs, each group with the sign of `signs`: "sign", and what `given` refers to.
create or replace function cdc.write_term(compiled jsonb, signs text, inputs text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$select {columns}
        from {signs} as signs
        cross join lateral (
            with {inputs}

{query}
        ) as query$template$,
        jsonb_build_object(
            'columns', (
                select string_agg(
                    format(case when place > jsonb_array_length(compiled -> 'keys') then 'query.%1$I * signs.sign as %1$I' else 'query.%1$I' end, value ->> 'name'),
                    ', ' order by place
                )
                from jsonb_array_elements((compiled -> 'keys') || (compiled -> 'kept')) with ordinality as one (value, place)
                where not value ? 'again'
            ),
            'signs', signs,
            'inputs', inputs,
            'query', coalesce(compiled ->> 'added', compiled ->> 'query')
        )
    )
$$;
