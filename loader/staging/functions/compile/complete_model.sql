-- A compiled query with the types of what it gives, asked of PostgreSQL over inputs as a routine will have them.
create or replace function cdc.complete_model(compiled jsonb, options jsonb) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    types jsonb;
    -- Their key is the table's own: one value has one row, however it is spelled.
    is_rows constant boolean := compiled ->> 'kind' = 'rows';
begin
    begin
        execute format(
            'create temporary view waltally_query as with %s select * from (%s) as query',
            (
                select string_agg(format('waltally_source_%s as (select %s)', ordinal, cdc.write_names(value -> 'columns', 'null::%3$s%4$s as %1$I')), ', ')
                from jsonb_array_elements((compiled -> 'sources') || coalesce(compiled -> 'inputs', '[]')) with ordinality as one (value, ordinal)
            ),
            compiled ->> 'query'
        );
    exception
        -- As a key -2.25::numeric is printed as a constant of the GROUP BY, and -1::integer as a place in the list.
        when syntax_error or invalid_column_reference then
            raise exception 'PostgreSQL cannot read again what it has printed of the query: %.', sqlerrm
                using errcode = 'WL003', hint = 'Select the expression in a sub-select, and use its column.';
    end;
    select jsonb_object_agg(a.attname, cdc.column_type(a)) into types
    from pg_attribute as a
    where a.attrelid = to_regclass('pg_temp.waltally_query') and a.attnum > 0;
    drop view pg_temp.waltally_query;
    compiled := cdc.value_types(compiled);

    if not is_rows then
        perform cdc.refuse_keys(compiled -> 'keys', types, options ? 'surrogate_key');
    end if;
    perform cdc.try_totals(compiled, types);

    return compiled || jsonb_strip_nulls(jsonb_build_object(
        'surrogate_key', options -> 'surrogate_key',
        'added', case when compiled ? 'added' then format(e'select *\nfrom (\n%s\n) as query', compiled ->> 'added') end
    )) || jsonb_build_object(
        -- It may have a WITH of its own.
        'query', format(e'select *\nfrom (\n%s\n) as query', compiled ->> 'query'),
        'expression_columns', (
            select coalesce(jsonb_agg(value || jsonb_build_object('expression', cdc.name_totals(compiled, value ->> 'expression')) order by ordinal), '[]')
            from jsonb_array_elements(compiled -> 'expression_columns') with ordinality as one (value, ordinal)
        ),
        'keys', (
            select coalesce(jsonb_agg(jsonb_build_object('name', value -> 'name') || ((types -> (value ->> 'name')) - 'is_loose') order by ordinal), '[]')
            from jsonb_array_elements(compiled -> 'keys') with ordinality as one (value, ordinal)
        ),
        'state_columns', (
            select coalesce(jsonb_agg(value || ((types -> (value ->> 'name')) - 'is_loose') order by ordinal), '[]')
            from jsonb_array_elements(compiled -> 'state_columns') with ordinality as one (value, ordinal)
        )
    );
end
$$;
