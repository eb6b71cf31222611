-- SQL: what a query reads of changed rows; what only a CTE hands up is null.
create or replace function cdc.changed_columns(input jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(string_agg(
        format(case when (value ->> 'is_needed')::boolean then '%1$I' else 'null::%2$s as %1$I' end, value ->> 'name', value ->> 'type'), ', ' order by ordinal
    ), '1 as waltally_nothing')
    from jsonb_array_elements(input -> 'columns') with ordinality as one (value, ordinal)
$$;
