-- What stands in a query's tree and may not, by a list of what may: what nobody thought of is refused.
create or replace function cdc.judge_nodes(nodes cdc.tree_node[], core text default null)
returns table (reason text, remedy text, path text)
language sql stable set search_path = pg_catalog, pg_temp as $$
    with parts as (
        -- What a query consists of: a clause and its node, or a property.
        select
            node.path,
            node.parent,
            split_part(substr(node.path, length(node.parent) + 2), '.', 1) as clause,
            node.parent ~ '\.subselect$' as is_asked_of_row
        from unnest(nodes) as node
        inner join unnest(nodes) as parent on parent.path = node.parent and parent.type = 'QUERY'
        union
        select node.path, null, field.key, node.path ~ '\.subselect$'
        from unnest(nodes) as node
        cross join lateral jsonb_each_text(node.fields) as field
        where node.type = 'QUERY' and field.value = 'true'
    ),

    refused_parts (clause, reason, remedy) as (
        values
        ('havingQual', 'HAVING: which groups there are would depend on totals',
            'the same query over a rows model; or a view, or the query that reads the model'),
        ('windowClause', 'a window function', 'windows alone over one model, in a model of their own; or a view'),
        ('limitCount', 'LIMIT', 'a view, or the query that reads the model'),
        ('limitOffset', 'OFFSET', 'a view, or the query that reads the model'),
        ('distinctClause', 'DISTINCT', 'GROUP BY the columns, with count(*); or the same query over a rows model'),
        ('hasDistinctOn', 'DISTINCT ON', 'a roll-up over a rows model'),
        ('groupingSets', 'grouping sets', 'a model for each of them'),
        ('groupDistinct', 'grouping sets', 'a model for each of them'),
        ('rowMarks', 'a locking clause', 'the query without it'),
        ('hasRecursive', 'a recursive CTE', 'a column that holds the path, kept by the application'),
        ('hasModifyingCTE', 'a statement that writes', 'the query without it')
    ),

    known_types (type) as (
        values
        ('QUERY'), ('RANGETBLENTRY'), ('ALIAS'), ('FROMEXPR'), ('JOINEXPR'), ('RANGETBLREF'), ('RANGETBLFUNCTION'),
        ('TARGETENTRY'), ('VAR'), ('CONST'), ('FUNCEXPR'), ('NAMEDARGEXPR'), ('OPEXPR'), ('DISTINCTEXPR'),
        ('NULLIFEXPR'), ('SCALARARRAYOPEXPR'), ('BOOLEXPR'), ('SUBLINK'), ('CASEEXPR'), ('CASEWHEN'),
        ('CASETESTEXPR'), ('ARRAYEXPR'), ('ROWEXPR'), ('COALESCEEXPR'), ('MINMAXEXPR'), ('NULLTEST'), ('BOOLEANTEST'),
        ('RELABELTYPE'), ('COERCEVIAIO'), ('ARRAYCOERCEEXPR'), ('COLLATEEXPR'), ('SUBSCRIPTINGREF'), ('FIELDSELECT'),
        ('AGGREF'), ('SORTGROUPCLAUSE'), ('COMMONTABLEEXPR'), ('SETOPERATIONSTMT'), ('RTEPERMISSIONINFO'), ('PARAM')
    )

    select
        coalesce(refused.reason, format('%s is not known here', parts.clause)),
        coalesce(refused.remedy, 'the query without it'), parts.path
    from parts
    left join refused_parts as refused on refused.clause = parts.clause
    where
        parts.clause not in (
            'canSetTag', 'targetList', 'rtable', 'rteperminfos', 'jointree', 'cteList', 'groupClause', 'sortClause',
            'setOperations', 'hasAggs', 'hasTargetSRFs', 'hasSubLinks', 'hasGroupRTE',
            'hasWindowFuncs', 'hasForUpdate' -- Beside the clauses that are refused.
        )
        -- What a group of rows decides: see find_group.
        and not (parts.clause in ('havingQual', 'windowClause', 'distinctClause', 'hasDistinctOn') and coalesce(core in (parts.path, parts.parent), false))
        -- Over a row's own values each of them has the same result at any time.
        and not (parts.is_asked_of_row and parts.clause in ('distinctClause', 'havingQual', 'limitCount', 'limitOffset'))
    union
    select
        case
            when node.type = 'SQLVALUEFUNCTION' then 'the current time, date or user'
            when node.type = 'GROUPINGFUNC' then 'grouping sets'
            when node.type = 'TABLESAMPLECLAUSE' then 'TABLESAMPLE'
            when node.type ~ '^JSON' then 'JSON_VALUE, JSON_OBJECT, IS JSON and their like'
            else format('%s is not known here', lower(node.type))
        end,
        case
            when node.type = 'SQLVALUEFUNCTION'
                then 'keep the time as a column, and compare with the clock in a view or in the query that reads the model'
            when node.type ~ '^JSON' then '`document ->> ''key''` or jsonb_path_query_first()'
            else 'the query without it'
        end, node.path
    from unnest(nodes) as node
    where
        node.type not in (select known.type from known_types as known)
        and node.type not in ('WINDOWFUNC', 'WINDOWCLAUSE', 'ROWMARKCLAUSE', 'GROUPINGSET')
    union
    select 'a column of the system (ctid, xmin and the like): the stream has none', 'the table''s own columns', node.path
    from unnest(nodes) as node
    where node.type = 'VAR' and (node.fields ->> 'varattno')::integer < 0
    union
    select 'a row used as a value', 'its columns by their names', node.path
    from unnest(nodes) as node
    where node.type = 'VAR' and node.fields ->> 'varattno' = '0'
$$;
