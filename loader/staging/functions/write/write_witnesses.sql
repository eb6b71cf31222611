-- SQL: of a model on the right of a LEFT JOIN the rows that changed, after and before, and for each row on the left one
-- that did not and meets it, where there is one: it decides whether that row is extended with nulls, and what it gives
-- itself cancels out. So a change costs the same however many rows meet the left one.
create or replace function cdc.write_witnesses(compiled jsonb, number integer, neighbour integer, input jsonb)
returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$witness as materialized (
    select distinct on (waltally_witness::text) waltally_witness.*
    from near as waltally_near
    cross join lateral (
        select {near_columns} from {near_relation} as stored where stored.ctid = waltally_near.waltally_ctid
    ) as {near_name}
    cross join lateral (
        select {names} from (select {columns} from {relation} as stored) as {own_name}
        where {condition} and row({names})::text not in (select row({names})::text from changed where waltally_sign = 1)
        limit 1
    ) as waltally_witness
),

after_ as materialized (select {names} from witness union all select {names} from changed where waltally_sign = 1),

before_ as materialized (select {names} from witness union all select {names} from changed where waltally_sign = -1)$template$,
        jsonb_build_object(
            'near_columns', cdc.model_columns(compiled -> 'inputs' -> (neighbour - 1), 'stored'),
            'near_relation', cdc.input_relation(compiled, neighbour),
            'near_name', asked.near_name,
            'names', cdc.write_names(input -> 'columns', '%I'),
            'columns', cdc.model_columns(input, 'stored'),
            'relation', cdc.input_relation(compiled, number),
            'own_name', asked.own_name,
            'condition', asked.condition
        )
    )
    from cdc.left_condition(compiled ->> 'query', number, neighbour) as asked
$$;
