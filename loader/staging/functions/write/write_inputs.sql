-- SQL: the inputs of a query, as CTEs: `given` has the rows of some by their numbers, of the others they are those of
-- their tables; none of one that is not among `used`, which is in another arm of UNION ALL.
create or replace function cdc.write_inputs(
    compiled jsonb, given jsonb default '{}', used integer[] default null
) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select string_agg(
        format('waltally_source_%s as (%s)', ordinal, coalesce(given ->> ordinal::text, format(
            'select %s from %I.%I as stored%s',
            cdc.model_columns(value, 'stored'), value ->> 'schema', value ->> 'name',
            case when ordinal <> all (used) then ' where false' else '' end
        ))), e',\n' order by ordinal
    )
    from jsonb_array_elements(compiled -> 'inputs') with ordinality as one (value, ordinal)
$$;
