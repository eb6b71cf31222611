-- SQL of write_deltas for each source of a fact: the images of its changes, how many changes an image stands for, and
-- the images that the query sees as the table.
create or replace function cdc.write_images(compiled jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select jsonb_build_object(
        'images', string_agg(cdc.fill(
$template$images_{number} as materialized (
    select
        image.sign as waltally_sign, image.ignored_lsn as waltally_ignored_lsn,
        image.change_count as waltally_count{columns}
    from cdc.images($1, ($2)[{number}], {keeps_deleted}) as image
)$template$,
            jsonb_build_object('number', ordinal, 'columns', cdc.image_columns(value, ordinal::integer), 'keeps_deleted', value ->> 'keeps_deleted')
        ), e',\n\n' order by ordinal),
        'weights', string_agg(format(
            'select distinct %1$s, waltally_ignored_lsn, waltally_sign, waltally_count from images_%1$s', ordinal
        ), e'\nunion all\n' order by ordinal),
        'inputs', string_agg(cdc.fill(
$template$waltally_source_{number} as (
    select * from images_{number}
    where units.source_no = {number} and waltally_sign = units.sign
        and waltally_ignored_lsn is not distinct from units.ignored_lsn and waltally_count & units.unit > 0
)$template$,
            jsonb_build_object('number', ordinal)
        ), e',\n\n' order by ordinal)
    )
    from jsonb_array_elements(compiled -> 'sources') with ordinality as one (value, ordinal)
$$;
