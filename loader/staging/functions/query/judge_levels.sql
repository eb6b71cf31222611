-- What is wrong with where the parts of a query stand: an aggregate or a grouping below the top, and sub-selects over
-- other tables. `top_path` is the query that hands up the top one's columns.
create or replace function cdc.judge_levels(nodes cdc.tree_node[], top_path text)
returns table (reason text, remedy text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return query
    select distinct
        case when around.path is null then 'an aggregate or GROUP BY below the top' else 'a UNION ALL around aggregates' end,
        case when around.path is null then 'a model of its own for it, and a query over that model'
        else 'the UNION ALL inside FROM, and one GROUP BY around it' end
    from unnest(nodes) as node
    left join unnest(nodes) as around on around.path = top_path || '.setOperations'
    where
        (node.type = 'AGGREF' or node.type = 'SORTGROUPCLAUSE' and node.path ~ '\.groupClause\.[0-9]+$')
        and node.queries[cardinality(node.queries)] <> top_path
        and node.queries[cardinality(node.queries)] !~ '\.subselect(\.|$)'
    union
    select
        'a sub-select over a table: it would ask rows that change by themselves',
        'a fact of these rows by the column that ties them, and a query over both models'
    from unnest(nodes) as node
    where
        node.type = 'RANGETBLENTRY' and node.fields ->> 'rtekind' in ('0', '6') and node.fields ->> 'relkind' is distinct from 'v'
        and node.path ~ '\.subselect\.'
    union
    select
        format('%s, which the query names beside its sources', (node.fields ->> 'relid')::oid::regclass),
        'a source(), or a ref() of a model'
    from unnest(nodes) as node
    where
        node.type = 'RANGETBLENTRY' and node.fields ->> 'rtekind' = '0'
        and (node.fields ->> 'relid')::oid::regclass::text !~ '^(pg_temp(_[0-9]+)?\.)?waltally_source_[0-9]+$'
        and node.fields ->> 'relkind' <> 'v'
    union
    select distinct
        case
            when called.aggdistinct then 'DISTINCT in an aggregate cannot be taken back row by row'
            when called.aggorder then 'ORDER BY in an aggregate'
            when p.proname in ('min', 'max', 'bool_or', 'bool_and', 'every') then format('%s() cannot be taken back row by row', p.proname)
            when p.proname in ('sum', 'avg') and p.proargtypes[0] in ('real'::regtype, 'double precision'::regtype)
                then format('%s() of floats depends on the order of rows', p.proname)
            else format('%s(%s) is no sum over rows', p.proname, oidvectortypes(p.proargtypes))
        end,
        case
            when p.proname in ('sum', 'avg') and not called.aggdistinct then '`sum(x::text::numeric)`, which is exact'
            else 'the same query over a rows model, or over a fact that also groups by the value'
        end
    from (
        select
            (node.fields ->> 'aggfnoid')::oid as function_oid,
            exists (select from unnest(nodes) as part where part.parent = node.path and part.path ~ '\.aggdistinct\.[0-9]+$') as aggdistinct,
            exists (select from unnest(nodes) as part where part.parent = node.path and part.path ~ '\.aggorder\.[0-9]+$') as aggorder
        from unnest(nodes) as node
        where node.type = 'AGGREF' and node.queries[cardinality(node.queries)] = top_path
    ) as called
    inner join pg_proc as p on p.oid = called.function_oid
    where
        called.aggdistinct or called.aggorder
        -- count(*), count(x), and sums and averages of integers and numerics.
        or p.oid not in (2803, 2147, 2107, 2108, 2109, 2114, 2100, 2101, 2102, 2103);
end
$$;
