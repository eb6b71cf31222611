-- Of a query over one model that does more with a group of rows than to aggregate it: how its rows fall into groups,
-- each of which decides its rows of the result alone. No row for any other query.
--
-- core     the path of the select that does it; `kind` is as find_core gives it
-- grouped  the model's columns of which each group has one value
-- lacking  what its order leaves open: the columns of the model's key to add, with the path of what asks for it
create or replace function cdc.find_group(nodes cdc.tree_node[], inputs jsonb)
returns table (core text, kind text, grouped text[], lacking text[], lacking_path text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    with core as materialized (
        select * from cdc.find_core(nodes, inputs)
    ),

    windows as (
        select node.path, node.fields
        from core inner join unnest(nodes) as node on node.type = 'WINDOWCLAUSE' and node.parent = core.path
    ),

    -- The model's columns in the clauses of each that part the rows, and in those that sort them.
    clauses as (
        select sorting.parent as owner, sorting.path ~ '\.(partitionClause|groupClause|distinctClause)\.[0-9]+$' as does_part, a.attname::text as name
        from core
        inner join unnest(nodes) as sorting
            on sorting.type = 'SORTGROUPCLAUSE' and (sorting.parent in (select windows.path from windows) or core.kind <> 'window' and sorting.parent = core.path)
        inner join unnest(nodes) as target
            on target.parent = core.path and target.type = 'TARGETENTRY' and target.fields -> 'ressortgroupref' = sorting.fields -> 'tleSortGroupRef'
        inner join cdc.follow_columns(nodes) as followed on followed.variable = target.path || '.expr'
        inner join pg_attribute as a on a.attrelid = followed.relation and a.attnum = followed.column_number
    ),

    -- What asks which row comes first.
    asking as (
        select core.path as owner, core.path from core where core.kind = 'first'
        union all
        select windows.path, called.path
        from windows
        inner join unnest(nodes) as called on called.type = 'WINDOWFUNC' and called.fields -> 'winref' = windows.fields -> 'winref'
        inner join pg_proc as p on p.oid = (called.fields ->> 'winfnoid')::oid
        where
            p.proname ~ '^(row_number|ntile|lag|lead|first_value|last_value|nth_value|array_agg|string_agg|jsonb?(_object)?_agg.*|xmlagg|any_value)$'
            -- ROWS: which of equal ones are in the frame.
            or (windows.fields ->> 'frameOptions')::integer & 4 > 0
    ),

    open as (
        select asking.path, array(
            select key.name from jsonb_array_elements_text(inputs -> 0 -> 'key') as key (name)
            where
                key.name not in (select clauses.name from clauses where clauses.owner = asking.owner)
                -- Joined with values one row of the model is several.
                or exists (
                    select from unnest(nodes) as entry
                    where entry.type = 'RANGETBLENTRY' and entry.fields ->> 'rtekind' in ('3', '4', '5') and entry.path !~ '\.subselect\.'
                )
        ) as names
        from asking
    )

    select
        core.path,
        core.kind,
        array(
            select clauses.name from clauses where clauses.does_part
            group by clauses.name
            having count(distinct clauses.owner) = greatest((select count(*) from windows), 1)
            order by clauses.name
        ),
        open.names,
        open.path
    from core
    left join open on open.names <> '{}'
    limit 1;
end
$$;
