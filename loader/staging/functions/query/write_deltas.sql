-- SQL: the function that gives what changes add to each group of a fact: the query over their new images less the query
-- over their old ones. Images that look alike are one, with a count; what stands for 5 of them is evaluated with
-- those that stand for 1 and with those that stand for 4, so that the query runs once for each binary digit. Sources
-- are arms of a UNION ALL, so each is evaluated with the others empty. waltally_archived_lsn is the position of a
-- delete that the model goes on counting. The arguments have no names, which columns may have.
create or replace function cdc.write_deltas(compiled jsonb, function_name text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    sources constant jsonb := compiled -> 'sources';
    keys constant text := cdc.write_names(compiled -> 'keys', 'query.%I');
begin
    return cdc.fill(
$template$
create or replace function {function}(cdc.change[], integer[], integer[])
returns table ({returns})
language plpgsql stable {pins}
as $routine$
#variable_conflict use_column
begin
    return query
    with {images}

    select
        units.source_no, units.archived_lsn, {keys}{sums}
    from (
        select distinct weights.source_no, weights.archived_lsn, weights.sign, 1::bigint << digit as unit
        from ({weights}) as weights
        cross join generate_series(0, 40) as digit
        where weights.change_count >> digit & 1 = 1
    ) as units
    cross join lateral (
        with {inputs}

{query}
    ) as query
    group by units.source_no, units.archived_lsn{grouped};
end
$routine$
$template$,
        jsonb_build_object(
            'function', function_name,
            'returns', concat_ws(
                ', ', 'waltally_source_no integer, waltally_archived_lsn pg_lsn',
                nullif(cdc.write_names(compiled -> 'keys', '%I %s'), ''), cdc.write_names(compiled -> 'kept', '%I numeric')
            ),
            'pins', cdc.routine_pins(compiled),
            'keys', case when keys <> '' then keys || e',\n        ' else '' end,
            'grouped', case when keys <> '' then ', ' || keys else '' end,
            'sums', (
                select string_agg(
                    format(
                        case value ->> 'type' when 'numeric'
                            then 'cdc.finite(coalesce(sum(query.%I * units.sign * units.unit), 0))'
                            else 'coalesce(sum(query.%I * units.sign * units.unit), 0)'
                        end,
                        value ->> 'name'
                    ),
                    e',\n        ' order by place
                )
                from jsonb_array_elements(compiled -> 'kept') with ordinality as one (value, place)
            ),
            'images', (
                select string_agg(cdc.fill(
$images$images_{number} as materialized (
        select
            image.sign as waltally_sign, image.archived_lsn as waltally_archived_lsn, image.change_count as waltally_count{columns}
        from cdc.images($1, ($2)[{number}], {keeps_deleted}) as image
    )$images$,
                    jsonb_build_object(
                        'number', place,
                        'columns', cdc.image_columns(value, place::integer),
                        'keeps_deleted', value ->> 'keeps_deleted'
                    )
                ), e',\n\n    ' order by place)
                from jsonb_array_elements(sources) with ordinality as one (value, place)
            ),
            'weights', (
                select string_agg(format(
                    'select distinct %s as source_no, waltally_archived_lsn as archived_lsn, waltally_sign as sign, waltally_count as change_count from images_%s',
                    place, place
                ), ' union all ' order by place)
                from jsonb_array_elements(sources) with ordinality as one (value, place)
            ),
            'inputs', (
                select string_agg(cdc.fill(
$input$waltally_source_{number} as (
            select * from images_{number}
            where units.source_no = {number} and waltally_sign = units.sign
                and waltally_archived_lsn is not distinct from units.archived_lsn and waltally_count & units.unit > 0
        )$input$,
                    jsonb_build_object('number', place)
                ), e',\n        ' order by place)
                from jsonb_array_elements(sources) with ordinality as one (value, place)
            ),
            'query', compiled ->> 'query'
        )
    );
end
$$;
