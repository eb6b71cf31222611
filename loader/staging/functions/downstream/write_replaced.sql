-- SQL: put the rows that the groups of changed rows have now in place of those that they had, in a roll-up that keeps
-- the rows of its query as they are. `is_watched` is a condition: then before and after get what goes and what comes.
create or replace function cdc.write_replaced(compiled jsonb, model text, relation text, is_watched text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$
with {changed},

touched as materialized (
    select distinct {touched} from changed
),

present as materialized (
    with {inputs}

{query}
),

former as materialized (
    select stored.ctid as waltally_place, row({stored})::text as waltally_text
    from touched
    inner join {relation} as stored on {own_rows}
),

gone as (
    delete from {relation} as stored
    where stored.ctid in (
        select former.waltally_place from former where former.waltally_text not in (select row({columns})::text from present)
    )
    returning case when {is_watched} then stored.* end as waltally_row
),

came as (
    insert into {relation} as stored ({inserted})
    select {values}
    from present
    where row({columns})::text not in (select former.waltally_text from former) and (select count(*) from gone) >= 0
    returning case when {is_watched} then stored.* end as waltally_row
)

select array_agg(gone.waltally_row), array_agg(came.waltally_row) into before, after
from (select row_number() over () as place, gone.waltally_row from gone where not gone.waltally_row is null) as gone
full join (select row_number() over () as place, came.waltally_row from came where not came.waltally_row is null) as came using (place);
$template$,
        jsonb_build_object(
            'changed', cdc.write_changed(cdc.held_columns(compiled, model)),
            'touched', (select string_agg(format('%s as waltally_%s', sql, place), ', ' order by place) from unnest(forms.of_changed) with ordinality as one (sql, place)),
            'inputs', cdc.write_inputs(compiled, jsonb_build_object('1', format(
                'select %s from touched inner join %s as stored on %s',
                cdc.model_columns(compiled #> '{inputs,0}', 'stored'), cdc.input_relation(compiled, 1),
                (select string_agg(format('%s = touched.waltally_%s', sql, place), ' and ' order by place) from unnest(forms.of_input) with ordinality as one (sql, place))
            ))),
            'query', compiled ->> 'query',
            'relation', relation,
            'own_rows', (
                select string_agg(format('%s = touched.waltally_%s', sql, place), ' and ' order by place)
                from unnest(forms.of_own) with ordinality as one (sql, place)
            ),
            'columns', cdc.write_names((compiled -> 'keys') || (compiled -> 'kept'), '%I'),
            'stored', cdc.write_names((compiled -> 'keys') || (compiled -> 'kept'), 'stored.%I'),
            'inserted', concat_ws(', ', quote_ident(compiled ->> 'surrogate_key'), cdc.write_names((compiled -> 'keys') || (compiled -> 'kept'), '%I')),
            'values', concat_ws(
                ', ', case when compiled ? 'surrogate_key' then format('md5(row(%s)::text)::uuid', cdc.write_names(compiled -> 'keys', '%I')) end,
                cdc.write_names((compiled -> 'keys') || (compiled -> 'kept'), '%I')
            ),
            'is_watched', is_watched
        )
    )
    from (
        select cdc.group_forms(compiled, 'column') as of_changed, cdc.group_forms(compiled, 'column', 'stored.') as of_input, cdc.group_forms(compiled, 'name', 'stored.') as of_own
    ) as forms
$$;
