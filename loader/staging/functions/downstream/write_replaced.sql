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
    select {columns}, row({columns})::text as waltally_text from (
        {present}
    ) as own
),

former as materialized (
    select stored.ctid as waltally_place, row({stored})::text as waltally_text
    from touched
    inner join {relation} as stored on {own_rows}
),

gone as (
    delete from {relation} as stored
    where stored.ctid in (
        select former.waltally_place from former
        where not exists (select from present where present.waltally_text = former.waltally_text)
    )
    returning case when {is_watched} then stored.* end as waltally_row
),

came as (
    insert into {relation} as stored ({inserted})
    select {values}
    from present
    where
        not exists (select from former where former.waltally_text = present.waltally_text)
        and (select count(*) from gone) >= 0
    returning case when {is_watched} then stored.* end as waltally_row
)

select array_agg(gone.waltally_row), array_agg(came.waltally_row) into before, after
from (select row_number() over () as place, gone.waltally_row from gone where not gone.waltally_row is null) as gone
full join (select row_number() over () as place, came.waltally_row from came where not came.waltally_row is null) as came using (place);
$template$,
        jsonb_build_object(
            'changed', cdc.write_changed(cdc.held_columns(compiled, model)),
            'touched', concat_ws(
                ', ', (select string_agg(format('%s as waltally_%s', sql, place), ', ' order by place) from unnest(forms.of_changed) with ordinality as one (sql, place)),
                -- Texts that begin alike may be of two groups, each with a first row of its own.
                case when compiled ? 'order' then groups.listed end
            ),
            'present', case
                when compiled ? 'order' then format(
                    e'select own.* from touched cross join lateral (\n    with %s\n\n%s\n    limit 1\n    ) as own',
                    cdc.write_inputs(compiled, jsonb_build_object('1', format(
                        'select %s from %s as stored where %s and %s',
                        -- Constants here, by which nothing is to be sorted.
                        (
                            select string_agg(format(
                                case when compiled -> 'group' @> jsonb_build_array(jsonb_build_object('column', value -> 'name'))
                                    then 'touched.%I' else 'stored.%I' end, value ->> 'name'
                            ), ', ' order by place)
                            from jsonb_array_elements(compiled #> '{inputs,0,columns}') with ordinality as one (value, place)
                        ),
                        forms.input, forms.condition, groups.are_same
                    ))),
                    compiled ->> 'query'
                )
                else format(
                    e'with %s\n\n%s',
                    cdc.write_inputs(compiled, jsonb_build_object('1', format(
                        'select %s from touched inner join %s as stored on %s', forms.read, forms.input, forms.condition
                    ))),
                    compiled ->> 'query'
                )
            end,
            'relation', relation,
            'own_rows', (
                select string_agg(format('%s = touched.waltally_%s', sql, place), ' and ' order by place)
                from unnest(forms.of_own) with ordinality as one (sql, place)
            ) || case when compiled ? 'order' then ' and ' || groups.are_own else '' end,
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
        select
            cdc.group_forms(compiled, 'column') as of_changed,
            cdc.group_forms(compiled, 'name', 'stored.') as of_own,
            cdc.model_columns(compiled #> '{inputs,0}', 'stored') as read,
            cdc.input_relation(compiled, 1) as input,
            (
                select string_agg(format('%s = touched.waltally_%s', sql, place), ' and ' order by place)
                from unnest(cdc.group_forms(compiled, 'column', 'stored.')) with ordinality as one (sql, place)
            ) as condition
    ) as forms
    cross join (
        select
            string_agg(format('%I', value ->> 'column'), ', ') as listed,
            string_agg(format('stored.%1$I is not distinct from touched.%1$I', value ->> 'column'), ' and ') as are_same,
            string_agg(format('stored.%I is not distinct from touched.%I', value ->> 'name', value ->> 'column'), ' and ') as are_own
        from jsonb_array_elements(compiled -> 'group')
    ) as groups
$$;
