-- What is wrong with where the parts of a query stand: an aggregate or a grouping below the top, and sub-selects over
-- other tables. `top_path` is the query that hands up the top one's columns.
create or replace function cdc.judge_levels(nodes cdc.tree_node[], top_path text)
returns table (reason text, remedy text, path text)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select distinct
        case when around.path is null then 'an aggregate or GROUP BY below the top' else 'a UNION ALL around aggregates' end,
        case when around.path is null then 'a model of its own for it, and a query over that model'
        else 'the UNION ALL inside FROM, and one GROUP BY around it' end,
        node.path
    from unnest(nodes) as node
    left join unnest(nodes) as around on around.path = top_path || '.setOperations'
    where
        (node.type = 'AGGREF' or node.type = 'SORTGROUPCLAUSE' and node.path ~ '\.groupClause\.[0-9]+$')
        and node.queries[cardinality(node.queries)] <> top_path
        and node.queries[cardinality(node.queries)] !~ '\.subselect(\.|$)'
    union
    select
        'a sub-select over a table: it would ask rows that change by themselves',
        'a fact of these rows by the column that ties them, and a query over both models',
        node.path
    from unnest(nodes) as node
    where
        node.type = 'RANGETBLENTRY' and node.fields ->> 'rtekind' in ('0', '6') and node.fields ->> 'relkind' is distinct from 'v'
        and node.path ~ '\.subselect\.'
        -- Its own CTE; what that reads is judged there.
        and (
            node.queries[cardinality(node.queries) - (node.fields ->> 'ctelevelsup')::integer] ~ '\.subselect(\.|$)'
        ) is not true
    union
    select
        format('%s, which the query names beside its sources', (node.fields ->> 'relid')::oid::regclass),
        'a source(), or a ref() of a model',
        node.path
    from unnest(nodes) as node
    where
        node.type = 'RANGETBLENTRY' and node.fields ->> 'rtekind' = '0'
        and (node.fields ->> 'relid')::oid::regclass::text !~ '^(pg_temp(_[0-9]+)?\.)?waltally_source_[0-9]+$'
        and node.fields ->> 'relkind' <> 'v'
    union
    select
        'a column that begins with waltally_, as names of ours do, handed up by `*`',
        'the columns that are needed by their names, in place of `*`',
        null
    from cdc.read_columns(nodes) as read
    inner join pg_attribute as a on a.attrelid = read.relation and a.attnum = read.column_number
    where starts_with(a.attname, 'waltally_')
$$;
