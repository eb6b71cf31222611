-- Whether an aggregate is the values or the weights of cdc.percentile_disc, both in the order of the values: in what
-- order equal ones come makes no difference then.
create or replace function cdc.is_weighted(nodes cdc.tree_node[], path text) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select
        count(*) = 2
        and count(distinct item.sorted_by) = 1
        and bool_and(item.key_count = 1)
        and bool_or(item.is_itself and not item.is_weight)
    from (
        select
            call.path ~ '\.args\.3(\.arg)?$' as is_weight,
            count(*) over (partition by call.path) as key_count,
            key.path = call.path || '.args.1' as is_itself,
            cdc.node_value(nodes, key.path || '.expr') as sorted_by
        from unnest(nodes) as caller
        cross join lateral (
            -- The weights may be cast to numerics.
            values (array[caller.path || '.args.2', caller.path || '.args.3', caller.path || '.args.3.arg'])
        ) as own (paths)
        inner join unnest(nodes) as call on call.path = any (own.paths) and call.type = 'AGGREF'
        inner join unnest(nodes) as sorting on sorting.parent = call.path and sorting.path ~ '\.aggorder\.[0-9]+$'
        inner join unnest(nodes) as key
            on key.parent = call.path and key.type = 'TARGETENTRY'
            and key.fields ->> 'ressortgroupref' = sorting.fields ->> 'tleSortGroupRef'
        where
            is_weighted.path = any (own.paths)
            and caller.fields ->> 'funcid' = 'cdc.percentile_disc(double precision, anyarray, numeric[])'::regprocedure::oid::text
    ) as item
$$;
