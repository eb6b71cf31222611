-- What a query groups by: each column's name, its type, and its expression as it is printed among the `entries` of the
-- select's list. Beside a table's primary key its other columns may be selected, whose groups are the same: these are
-- not grouped. See compile_fact.
create or replace function cdc.find_keys(columns jsonb, tree jsonb, entries text[], names text[], numbers integer[])
returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    grouped constant jsonb := jsonb_path_query_array(tree, '$.groupClause[*].tleSortGroupRef');
begin
    if exists (
        select from jsonb_array_elements(tree -> 'targetList') as target
        where
            grouped @> (target -> 'ressortgroupref')
            and (target ->> 'resjunk' = 'true' or not (target ->> 'resno')::integer = any (numbers))
    ) then
        raise exception 'A grouped expression is not selected: two groups could look alike.'
            using errcode = 'WL003', hint = 'Select every expression of GROUP BY.';
    end if;
    return (
        select coalesce(jsonb_agg(jsonb_build_object(
            'name', names[series.ordinal],
            'type', columns -> (series.ordinal - 1) ->> 'type',
            'expression', entries[numbers[series.ordinal]],
            'is_constant', not target @? 'strict $.** ? (@._ == "VAR")',
            'is_grouped', grouped @> (target -> 'ressortgroupref')
        ) order by series.ordinal), '[]')
        from generate_subscripts(numbers, 1) as series (ordinal)
        cross join lateral (select tree -> 'targetList' -> (numbers[series.ordinal] - 1) as target) as own
        where
            grouped @> (target -> 'ressortgroupref')
            or not target @? 'strict $.** ? (@._ == "AGGREF")' and target @? 'strict $.** ? (@._ == "VAR")'
    );
end
$$;
