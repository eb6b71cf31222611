-- SQL: put the rows that the groups of changed rows have now in place of those that they had, in a roll-up that keeps
-- the rows of its query as they are. `returns_rows` is a condition: then before and after get what goes and what comes.
create or replace function cdc.write_replaced(
    compiled jsonb, model text, relation text, returns_rows text, is_queued boolean default false
) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$with {changed},

touched as materialized (
    select distinct {touched} from changed
),

present as materialized (
    select {columns}, row({columns})::text as waltally_text from (
        {present}
    ) as own
),

former as materialized (
    select stored.ctid as waltally_ctid, row({stored})::text as waltally_text
    from touched
    inner join {relation} as stored on {own_rows}
),

gone as (
    delete from {relation} as stored
    where stored.ctid in (
        select former.waltally_ctid from former
        where not exists (select from present where present.waltally_text = former.waltally_text)
    )
    returning case when {returns_rows} then stored.* end as waltally_row
),

came as (
    insert into {relation} as stored ({inserted})
    select {values}
    from present
    where
        not exists (select from former where former.waltally_text = present.waltally_text)
        and (select count(*) from gone) >= 0
    returning case when {returns_rows} then stored.* end as waltally_row
)

select array_agg(gone.waltally_row), array_agg(came.waltally_row) into before, after
from (select row_number() over () as ordinal, gone.waltally_row from gone where gone.waltally_row is distinct from null) as gone
full join (select row_number() over () as ordinal, came.waltally_row from came where came.waltally_row is distinct from null) as came using (ordinal);$template$,
        jsonb_build_object(
            'changed', cdc.write_changed(cdc.input_columns(compiled, model), is_queued),
            'touched', (
                select string_agg(listed.sql, ', ')
                from (
                    select format('%s as waltally_%s', form.sql, form.ordinal) as sql
                    from unnest(cdc.group_forms(compiled, 'column')) with ordinality as form (sql, ordinal)
                    union
                    select quote_ident(value ->> 'column') from jsonb_array_elements(compiled -> 'group')
                ) as listed
            ),
            'present', cdc.write_present(compiled),
            'relation', relation,
            'own_rows', cdc.match_group(compiled, 'name'),
            'columns', cdc.write_names(own.columns, '%I'),
            'stored', cdc.write_names(own.columns, 'stored.%I'),
            'inserted', concat_ws(', ', quote_ident(compiled ->> 'surrogate_key'), cdc.write_names(own.columns, '%I')),
            'values', concat_ws(
                ', ', case when compiled ? 'surrogate_key' then cdc.write_id(compiled, 'present') end,
                (select string_agg(cdc.write_whole(quote_ident(value ->> 'name'), value ->> 'exact', relation), ', ' order by ordinal)
                from jsonb_array_elements(own.columns) with ordinality as one (value, ordinal))
            ),
            'returns_rows', returns_rows
        )
    )
    from (select (compiled -> 'keys') || (compiled -> 'state_columns') as columns) as own
$$;
