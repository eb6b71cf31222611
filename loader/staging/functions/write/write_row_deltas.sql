-- SQL: the function that gives a model's rows of changes as last_rows or net_rows leave them: with the sign 1 those
-- that are there now, with -1 those that were, or only their keys. The arguments have no names, which columns may have.
create or replace function cdc.write_row_deltas(compiled jsonb, function_name text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    columns constant jsonb := (compiled -> 'keys') || (compiled -> 'state_columns');
begin
    return cdc.fill(
$template$
create or replace function {function}(cdc.change[], integer[], integer[])
returns table (waltally_sign integer, {returns})
language plpgsql stable {pins}
as $routine$
#variable_conflict use_column
begin
    return query
    with images as materialized (
        select
            image.sign as waltally_sign{columns}
        from (
            select
                case change.action when 'I' then 1 else -1 end as sign,
                case change.action when 'I' then change.new_values else change.old_values end as v
            from unnest($1) as change
            offset 0
        ) as image
    )

    select
        side.sign,
        {first_key}{others}
    from (values {signs}) as side (sign)
    cross join lateral (
        with waltally_source_1 as (
            select * from images where waltally_sign = side.sign
        )

        {query}
    ) as query{gone};
end
$routine$
$template$,
        jsonb_build_object(
            'function', function_name,
            'returns', cdc.write_names(columns, '%I %s'),
            'pins', cdc.routine_pins(compiled),
            'columns', cdc.image_columns(compiled -> 'sources' -> 0, 1),
            'first_key', cdc.write_row_key(
                compiled, format('query.%I', columns -> 0 ->> 'name'), columns -> 0 ->> 'type'
            ),
            'others', cdc.write_names(columns - 0, e',\nquery.%I', ''),
            'query', compiled ->> 'query',
            'signs', case when (compiled ->> 'has_old_rows')::boolean then '(1), (-1)' else '(1)' end,
            'gone', case when (compiled ->> 'has_old_rows')::boolean then '' else (
                select format(
                    e'\nunion all\nselect\n    -1,\n    %s\nfrom images as image\nwhere image.waltally_sign = -1',
                    string_agg(expression, e',\n    ' order by is_key desc, ordinal)
                )
                from (
                    select
                        true as is_key,
                        ordinal,
                        format('image.%I', name) as expression
                    from jsonb_array_elements_text(compiled -> 'identity') with ordinality as one (name, ordinal)
                    union all
                    select false, ordinal, format('null::%s', value ->> 'type')
                    from jsonb_array_elements(compiled -> 'state_columns') with ordinality as one (value, ordinal)
                ) as listed
            ) end
        )
    );
end
$$;
