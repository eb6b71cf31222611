-- Columns whose collation is nondeterministic, where a query compares, groups or converts them and names no other one.
-- The stream has their texts alone.
create or replace function cdc.judge_collations(nodes cdc.tree_node[], sources jsonb)
returns table (reason text, remedy text, path text)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select
        format('%s has a nondeterministic collation: texts that differ are equal under it', own.value ->> 'name'),
        '`column collate "C"`, or another collation',
        variable.path
    from cdc.follow_columns(nodes) as followed
    inner join jsonb_array_elements(sources) with ordinality as source (value, place)
        on followed.relation = to_regclass('pg_temp.waltally_source_' || source.place::text)
    cross join lateral (select source.value -> 'columns' -> (followed.column_number - 1) as value) as own
    inner join unnest(nodes) as variable on variable.path = followed.variable
    inner join unnest(nodes) as parent on parent.path = variable.parent
    where
        own.value ? 'is_loose'
        and variable.path !~ '\.joinaliasvars\.[0-9]+$'
        and not (
            parent.type = 'NULLTEST'
            -- Selected or handed up.
            or parent.type = 'TARGETENTRY' and parent.fields ->> 'ressortgroupref' = '0'
        )
        and not exists (
            select from unnest(nodes) as named
            where named.type = 'COLLATEEXPR' and variable.path in (named.path || '.arg', named.path || '.arg.arg')
        )
$$;
