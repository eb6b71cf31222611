-- What a query without an aggregate may not have: what makes several rows of one, a second table, and settings that a
-- table's rows have no use for.
create or replace function cdc.judge_rows(
    nodes cdc.tree_node[], sources jsonb, options jsonb
) returns table (reason text, remedy text, path text)
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select distinct said.reason, said.remedy, node.path
    from unnest(nodes) as node
    inner join (
        values
        (
            'SETOPERATIONSTMT', 'UNION ALL of rows: two of them could have one key',
            'a rows model of each table, and the UNION ALL in a view or inside FROM of a query that groups'
        ),
        (
            'FUNCEXPR', 'a function that makes several rows of one',
            'the column as it is, to be unfolded in a model over this one or in a view; or GROUP BY what it gives'
        ),
        (
            'RANGETBLENTRY', 'a join with constants, which may make several rows of one',
            'CASE; or the join in a model over this one or in a view'
        )
    ) as said (type, reason, remedy) on said.type = node.type
    where
        -- A sub-select is one value of its row.
        node.path !~ '\.subselect\.'
        and case node.type
            when 'FUNCEXPR' then node.fields ->> 'funcretset' = 'true'
            when 'RANGETBLENTRY' then node.fields ->> 'rtekind' = '5'
            else true
        end
    union all
    select 'The query names several tables, and rows of one are kept', 'a rows model of each of them, and the query over the models', null
    where jsonb_array_length(sources) > 1 and not exists (select from unnest(nodes) as node where node.type = 'SETOPERATIONSTMT')
    union all
    select 'surrogate_key: rows have the primary key of their table', 'config without it', null
    where options ? 'surrogate_key'
    union all
    select 'ignore_deletes: rows that are gone would stay for good', 'a query that groups, or config without it', null
    where coalesce(options -> 'ignore_deletes', '[]') <> '[]'
$$;
