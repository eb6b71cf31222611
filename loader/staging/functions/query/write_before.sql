-- SQL: the rows of a model's groups as they were before a statement, as texts. `groups` gives their keys. By its unique
-- index: a join finds those without a null.
create or replace function cdc.write_before(compiled jsonb, relation text, groups text, is_watched text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case
        when count(*) = 0 then format('select (stored.*)::text as row from %s cross join %s as stored where %s', groups, relation, is_watched)
        else format(
            'select (stored.*)::text as row from %1$s inner join %2$s as stored on %3$s where %4$s' || case
                when compiled ->> 'kind' = 'rows' then ''
                else e'\n    union all\n    select found.row from cdc.find_null_groups(%2$L, %5$L, %6$L, (\n'
                    '        select jsonb_agg(jsonb_build_array(%7$s)) from %1$s where %4$s and (%8$s)\n    )) as found (row)'
            end,
            groups, relation,
            string_agg(format('stored.%1$I = %2$s.%1$I', value ->> 'name', groups), ' and ' order by place),
            is_watched,
            array_agg(value ->> 'name' order by place), array_agg(value ->> 'type' order by place),
            string_agg(format('%s.%I::text', groups, value ->> 'name'), ', ' order by place),
            string_agg(format('%s.%I is null', groups, value ->> 'name'), ' or ' order by place)
        )
    end
    from jsonb_array_elements(compiled -> 'keys') with ordinality as one (value, place)
$$;
