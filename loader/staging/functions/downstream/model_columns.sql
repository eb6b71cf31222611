-- SQL: columns of a model's row, as a query over it sees them: a text under the database's default collation.
create or replace function cdc.model_columns(input jsonb, row_name text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select coalesce(string_agg(
        format(
            case when cdc.has_collation(rtrim(value ->> 'type', '[]')) then '%1$s.%2$I collate "default" as %2$I' else '%1$s.%2$I' end,
            row_name, value ->> 'name'
        ), ', ' order by place
    ), '1 as waltally_nothing')
    from jsonb_array_elements(input -> 'columns') with ordinality as one (value, place)
$$;
