-- SQL: the rows of a model that changed, each with a sign. Those that look alike before and after are left out.
create or replace function cdc.write_changed(held jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$changed as materialized (
        select netted.*
        from (
            select image.*, sum(image.waltally_sign) over (partition by image.waltally_text) as waltally_net
            from (
                select {columns}, row({names})::text as waltally_text, 1 as waltally_sign from unnest($4::{relation}[]) as stored
                union all
                select {columns}, row({names})::text, -1 from unnest($3::{relation}[]) as stored
            ) as image
        ) as netted
        where netted.waltally_net <> 0
    )$template$,
        jsonb_build_object(
            'relation', format('%I.%I', held ->> 'schema', held ->> 'name'),
            'columns', cdc.model_columns(held, 'stored'),
            'names', coalesce((select string_agg(format('stored.%I', value ->> 'name'), ', ' order by place)
                from jsonb_array_elements(held -> 'columns') with ordinality as one (value, place)), '')
        )
    )
$$;
