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
            'columns', concat_ws(
                ', ',
                nullif(cdc.write_names(compiled -> 'keys', 'query.%I'), ''),
                cdc.write_names(jsonb_path_query_array(compiled, '$.state_columns[*] ? (!exists (@.again))'), 'query.%1$I * signs.sign as %1$I')
            ),
            'signs', signs,
            'inputs', inputs,
            'query', coalesce(compiled ->> 'added', compiled ->> 'query')
        )
    )
$$;
