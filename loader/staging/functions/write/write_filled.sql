-- SQL: fill the table of a model over models from its inputs. waltally.snapshot gets what the statement saw of them.
create or replace function cdc.write_filled(compiled jsonb, relation text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select cdc.write_long(compiled, relation, cdc.fill(
$template$with waltally_filled as (
    insert into {relation} ({columns})
    select {values}
    from (
        with {inputs}

        {query}
    ) as query
)

select set_config('waltally.snapshot', pg_current_snapshot()::text, true) into waltally_snapshot;$template$,
        jsonb_build_object(
            'relation', relation,
            'columns', string_agg(quote_ident(one.name), ', ' order by one.ordinal),
            'values', string_agg(
                case when one.kind = 'id' then cdc.write_id(compiled, 'query')
                when one.name = any (sums.names) then format('cdc.finite(query.%I)', one.name)
                else cdc.write_whole(format('query.%I', one.name), one.exact, relation) end, ', ' order by one.ordinal
            ),
            'inputs', cdc.write_inputs(compiled),
            'query', compiled ->> 'query'
        )
    ))
    from cdc.list_columns(compiled) as one
    cross join (
        select array_agg(value ->> 'name') as names from jsonb_array_elements(compiled -> 'state_columns')
        where value ->> 'type' = 'numeric' and not value ? 'again'
    ) as sums
    where one.kind <> 'expression'
$$;
