-- Where a query asks which of two values of an enum or of jsonb comes first: the source may change the one, and no
-- setting fixes the other. So do arrays of them, and rows, which may hold them.
create or replace function cdc.judge_order(nodes cdc.tree_node[]) returns table (reason text, remedy text, path text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    with ordered as (
        -- greatest(), <, max() and the like.
        select
            node.path,
            case
                when node.type = 'MINMAXEXPR' then cdc.node_type(node.fields)
                when p.proname ~ '^enum_' then 'anyenum'::regtype
                when p.proname ~ '^jsonb_' then 'jsonb'::regtype
                when p.proname ~ '^(record|btrecord)' then 'record'::regtype
            end as own_type
        from unnest(nodes) as node
        left join pg_proc as p
            on p.oid = coalesce(node.fields ->> 'funcid', node.fields ->> 'aggfnoid', node.fields ->> 'opfuncid')::oid
        where
            node.type = 'MINMAXEXPR'
            or p.proname ~ '^(enum|jsonb|array|record|record_image)_(lt|le|gt|ge|smaller|larger|cmp)$|^bt(array|record|recordimage)cmp$|^(min|max|mode|percentile_disc|array_sort|width_bucket|enum_first|enum_last|enum_range)$'
        union all
        -- ORDER BY, and DISTINCT, which sorts, over a row's own values.
        select substring(node.path from '^.*\.subselect'), null
        from unnest(nodes) as node
        inner join pg_operator as o on o.oid = (node.fields ->> 'sortop')::oid
        where
            node.type = 'SORTGROUPCLAUSE' and node.path ~ '\.subselect\.'
            and node.path ~ '\.(sortClause|aggorder|aggdistinct|distinctClause)\.[0-9]+$'
            and o.oprleft in ('anyenum'::regtype, 'jsonb'::regtype, 'anyarray'::regtype, 'record'::regtype)
    ),

    types as (
        select ordered.path, ordered.own_type as oid from ordered
        union
        select ordered.path, cdc.node_type(argument.fields)
        from ordered
        inner join unnest(nodes) as argument on starts_with(argument.path, ordered.path || '.')
        where
            ordered.own_type is null
            and (ordered.path ~ '\.subselect$' or substr(argument.path, length(ordered.path) + 1) ~ '^\.args\.[0-9]+(\.expr)?$')
    )

    select distinct
        case
            when is_enum then 'the order of an enum''s labels, which the source may change'
            when element.oid = 'record'::regtype then 'the order of rows'
            else 'the order of jsonb values, which no setting fixes'
        end,
        case
            when is_enum then 'the column as `column::text`, or CASE with a number for each label'
            when element.oid = 'record'::regtype then 'a comparison of their values, one by one'
            else 'the order of one of its values, as a text or number'
        end,
        types.path
    from types
    inner join pg_type as t on t.oid = types.oid
    inner join pg_type as element on element.oid = case when t.typsubscript = 'array_subscript_handler'::regproc then t.typelem else t.oid end
    cross join lateral (select element.typtype = 'e' or element.oid = 'anyenum'::regtype as is_enum) as judged
    where is_enum or element.oid in ('jsonb'::regtype, 'record'::regtype);
end
$$;
