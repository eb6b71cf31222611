-- Aggregates at the top of a query that cannot be kept there. A sum or count over rows is added to; what else the rows
-- of a group decide is computed again for a group that changed, over one model. `inputs` are models, null over sources.
create or replace function cdc.judge_aggregates(nodes cdc.tree_node[], top_path text, inputs jsonb)
returns table (reason text, remedy text, path text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    select distinct
        case
            when not called.is_orderless then format('%s() depends on the order of rows', p.proname)
            when called.is_distinct then 'DISTINCT in an aggregate cannot be taken back row by row'
            when p.proname in ('sum', 'avg') and p.proargtypes[0] in ('real'::regtype, 'double precision'::regtype)
                then format('%s() of floats depends on the order of rows', p.proname)
            when called.is_ordered then 'ORDER BY in an aggregate'
            else format('%s() cannot be taken back row by row', p.proname)
        end,
        case
            when not called.is_orderless then coalesce((
                select string_agg(format('`%s`', key.name), ', ') || format(' last in its ORDER BY, the key of %s', inputs #>> '{0,name}')
                from jsonb_array_elements_text(inputs -> 0 -> 'key') as key (name) where jsonb_array_length(inputs) = 1
            ), 'an ORDER BY that leaves no choice, in a roll-up')
            when p.proname in ('sum', 'avg') and not called.is_distinct
                then '`sum(x::text::numeric)`, which is exact; or the same query over a rows model'
            when jsonb_array_length(inputs) > 1 then 'a fact over these models that also groups by the value, and the same query over that fact'
            else 'the same query over a rows model, or over a fact that also groups by the value'
        end,
        called.path
    from (
        select listed.*, cdc.is_orderless(nodes, listed.path, inputs) as is_orderless
        from (
            select
                node.path,
                (node.fields ->> 'aggfnoid')::oid as function_oid,
                exists (select from unnest(nodes) as part where part.parent = node.path and part.path ~ '\.aggdistinct\.[0-9]+$') as is_distinct,
                exists (select from unnest(nodes) as part where part.parent = node.path and part.path ~ '\.aggorder\.[0-9]+$') as is_ordered
            from unnest(nodes) as node
            where node.type = 'AGGREF' and node.queries[cardinality(node.queries)] = top_path
        ) as listed
        offset 0
    ) as called
    inner join pg_proc as p on p.oid = called.function_oid
    where not (
        called.is_orderless
        and (coalesce(jsonb_array_length(inputs), 0) = 1 or not called.is_distinct and not called.is_ordered and cdc.is_sum(p.oid))
    );
end
$$;
