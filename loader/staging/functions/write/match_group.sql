-- SQL: whether the row `stored` is of the group `touched`, by what an index finds; `side` is as in group_forms. Two
-- groups may have one hash.
create or replace function cdc.match_group(compiled jsonb, side text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select string_agg(condition, ' and ')
    from (
        select format('%s = touched.waltally_%s', form.sql, form.ordinal) as condition
        from unnest(cdc.group_forms(compiled, side, 'stored.')) with ordinality as form (sql, ordinal)
        union all
        select format('stored.%I is not distinct from touched.%I', value ->> side, value ->> 'column')
        from jsonb_array_elements(compiled -> 'group')
    ) as own
$$;
