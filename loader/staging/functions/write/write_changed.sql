-- SQL: the rows of a model that changed, each with a sign. What has one ordinal in `former` and the same ordinal
-- of `present`, and looks alike in what the query reads, is left out; null stands where there was or is no row. The
-- model is named, so that a session plans again when its columns change: a column that has gone would be null.
-- `is_queued`: the rows that changed one after the other while the model was filled.
create or replace function cdc.write_changed(input jsonb, is_queued boolean default false) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case when is_queued then format(
        'changed as materialized (%s)',
        cdc.write_queued(
            input -> 'columns' || '{"name": "waltally_sign"}',
            format('jsonb_populate_record(null::%I.%I, queued.change) as own', input ->> 'schema', input ->> 'name')
        )
    ) else cdc.fill(
$template$changed as materialized (
    select {columns}, side.waltally_sign
    from (select unnest($3) as former, unnest($4) as present) as pair
    cross join lateral (values (1, pair.present), (-1, pair.former)) as side (waltally_sign, image)
    where side.image is distinct from null and record_image_ne(row({former}), row({present})) and (true or exists (select from {relation}))
)$template$,
        jsonb_build_object(
            'relation', format('%I.%I', input ->> 'schema', input ->> 'name'),
            'columns', cdc.model_columns(input, '(side.image)'),
            -- A row may have null in all of them: of such a one `is null` is true.
            'former', cdc.write_names(input -> 'columns', '(pair.former).%I, ', '') || 'pair.former is distinct from null',
            'present', cdc.write_names(input -> 'columns', '(pair.present).%I, ', '') || 'pair.present is distinct from null'
        )
    ) end
$$;
