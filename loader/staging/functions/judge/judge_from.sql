-- What stands in FROM and may not: tables and joins of which a change does not say which rows come and go.
create or replace function cdc.judge_from(nodes cdc.tree_node[]) returns table (reason text, remedy text)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select 'ONLY: the stream has the rows of all partitions', 'the table without ONLY'
    from unnest(nodes) as node
    where node.type = 'RANGETBLENTRY' and node.fields ->> 'rtekind' = '0'
        and node.fields ->> 'inh' = 'false' and node.fields ->> 'relkind' in ('r', 'p')
    union
    select 'NATURAL JOIN: its condition changes with the tables'' columns', 'JOIN ... USING with the columns'' names'
    from unnest(nodes) as node
    where node.type = 'JOINEXPR' and node.fields ->> 'isNatural' = 'true'
    union
    select 'other names for the columns of a table, which go by their order', 'AS for each of them, in a CTE'
    from unnest(nodes) as node
    inner join unnest(nodes) as entry on entry.path = node.parent and entry.type = 'RANGETBLENTRY' and entry.fields ->> 'rtekind' = '0'
    where node.type = 'ALIAS' and node.path ~ '\.alias$' and (node.fields -> 'colnames') is distinct from 'null'
    union
    select 'a RIGHT or FULL join', 'LEFT JOIN from the other side'
    from unnest(nodes) as node
    where node.type = 'JOINEXPR' and node.fields ->> 'jointype' not in ('0', '1')
    union
    select 'UNION, INTERSECT or EXCEPT, which compare rows', 'UNION ALL inside FROM'
    from unnest(nodes) as node
    where node.type = 'SETOPERATIONSTMT' and (node.fields ->> 'op' <> '1' or node.fields ->> 'all' <> 'true')
    union
    select 'a FROM item of a kind that is not known here', 'tables, values, unnest of a row''s own array'
    from unnest(nodes) as node
    where node.type = 'RANGETBLENTRY' and node.fields ->> 'rtekind' not in ('0', '1', '2', '3', '5', '6', '8', '9')
$$;
