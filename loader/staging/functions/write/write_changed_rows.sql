-- SQL: the rows of a model's groups as they were before a statement and as they are now, in two arrays, with null where
-- a group was not there or is not there any more. `groups` gives their keys and `waltally_row`, the row of now. It is
-- part of the statement that changes the rows, whose snapshot is from before. A join by the unique index finds the
-- groups without a null; those with one come last.
create or replace function cdc.write_changed_rows(compiled jsonb, relation text, groups text, returns_rows text)
returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$select
    array_agg(stored.*)$template$
        || case when compiled -> 'keys' <> '[]' and compiled ->> 'kind' <> 'rows' then $nulls$ || array(
        select found.row::{relation} from cdc.find_null_groups(
            {relation_name},
            {names},
            {types},
            (
                select jsonb_agg(jsonb_build_array(
                    {texts}
                ))
                from {groups}
                where {returns_rows} and ({has_null})
            )
        ) as found (row)
    )$nulls$ else '' end
        || $template$ as before,
    array_agg({groups}.waltally_row) as after
from {groups}
left join {relation} as stored
    on {is_same}
where {returns_rows}$template$,
        jsonb_build_object(
            'relation', relation,
            'relation_name', quote_literal(relation),
            'groups', groups,
            'returns_rows', returns_rows,
            'names', quote_literal((array_agg(value ->> 'name' order by ordinal))::text),
            'types', quote_literal((array_agg(value ->> 'type' order by ordinal))::text),
            'texts', cdc.write_names(compiled -> 'keys', groups || '.%I::text'),
            'has_null', cdc.write_names(compiled -> 'keys', groups || '.%I is null', ' or '),
            'is_same', coalesce(nullif(cdc.write_names(compiled -> 'keys', format('stored.%%1$I %%5$s %s.%%1$I', groups), ' and '), ''), 'true')
        )
    )
    from jsonb_array_elements(compiled -> 'keys') with ordinality as one (value, ordinal)
$$;
