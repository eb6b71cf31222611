-- SQL: the rows of a model's groups as they were before a statement and as they are now, in two arrays, with null where
-- a group was not there or is not there any more. `groups` gives their keys and `waltally_row`, the row of now. It is
-- part of the statement that changes the rows, whose snapshot is from before. A join by the unique index finds the
-- groups without a null; those with one come last.
create or replace function cdc.write_changed_rows(compiled jsonb, relation text, groups text, returns_rows text)
returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format(
        e'select\n        array_agg(stored.*)%5$s as before,\n        array_agg(%1$s.waltally_row) as after'
        '\n    from %1$s\n    left join %2$s as stored\n        on %3$s\n    where %4$s',
        groups, relation,
        coalesce(nullif(cdc.write_names(compiled -> 'keys', format('stored.%%1$I %%5$s %s.%%1$I', groups), ' and '), ''), 'true'),
        returns_rows,
        case when count(*) > 0 and compiled ->> 'kind' <> 'rows' then format(
            e' || array(\n            select found.row::%2$s from cdc.find_null_groups(\n                %3$L,\n                %4$L,\n                %5$L,\n                ('
            'select jsonb_agg(jsonb_build_array(\n        %6$s\n        )) from %1$s where %7$s and (\n        %8$s))\n            ) as found (row)\n        )',
            groups, relation, relation,
            array_agg(value ->> 'name' order by ordinal), array_agg(value ->> 'type' order by ordinal),
            cdc.write_names(compiled -> 'keys', groups || '.%I::text'),
            returns_rows,
            cdc.write_names(compiled -> 'keys', groups || '.%I is null', ' or ')
        ) else '' end
    )
    from jsonb_array_elements(compiled -> 'keys') with ordinality as one (value, ordinal)
$$;
