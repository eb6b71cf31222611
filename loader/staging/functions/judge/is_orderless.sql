-- Whether an aggregate gives the same in whatever order the rows of one model come. What collects values does where its
-- ORDER BY, or DISTINCT, leaves no choice: by the values themselves, where equal ones look alike, or by the key of the
-- model, `inputs`. Of floats the last digits may differ.
create or replace function cdc.is_orderless(nodes cdc.tree_node[], path text, inputs jsonb) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    with own as (
        select p.proname as name, call.fields ->> 'aggkind' as kind
        from unnest(nodes) as call
        inner join pg_proc as p on p.oid = (call.fields ->> 'aggfnoid')::oid and p.pronamespace = 'pg_catalog'::regnamespace
        where call.path = is_orderless.path
    ),

    arguments as (
        select
            value.path,
            value.fields,
            value.type,
            argument.fields ->> 'resjunk' = 'false' as is_given,
            argument.fields ->> 'ressortgroupref' in (
                select sorting.fields ->> 'tleSortGroupRef' from unnest(nodes) as sorting
                where sorting.parent = is_orderless.path and sorting.path ~ '\.(aggorder|aggdistinct)\.[0-9]+$'
            ) as is_sorted
        from unnest(nodes) as argument
        inner join unnest(nodes) as value on value.path = argument.path || '.expr'
        where argument.parent = is_orderless.path and argument.type = 'TARGETENTRY' and argument.path ~ '\.args\.[0-9]+$'
    ),

    -- One row of the model is one row here.
    keyed as (
        select array_agg(a.attname::text) @> array(select jsonb_array_elements_text(inputs -> 0 -> 'key')) and inputs #>> '{0,key,0}' is not null
            and not exists (
                select from unnest(nodes) as entry
                where entry.type = 'RANGETBLENTRY' and entry.fields ->> 'rtekind' in ('3', '4', '5') and entry.path !~ '\.subselect\.'
            ) as is_total
        from arguments
        inner join cdc.follow_columns(nodes) as followed on followed.variable = arguments.path
        inner join pg_attribute as a on a.attrelid = followed.relation and a.attnum = followed.column_number
        where arguments.is_sorted
    )

    select coalesce((
        select own.kind = 'o' or own.name !~ '^(array_agg|string_agg|jsonb?(_object)?_agg.*|xmlagg|any_value)$'
            or cdc.is_weighted(nodes, is_orderless.path)
            or (select is_total from keyed)
            or (
                select bool_and(
                    arguments.type = 'CONST' or arguments.is_sorted and cdc.equal_is_identical(
                        cdc.node_type(arguments.fields), coalesce(arguments.fields ->> 'vartypmod', '-1')::integer,
                        coalesce(arguments.fields ->> 'varcollid', '0')::oid
                    )
                )
                from arguments where arguments.is_given
            )
        from own
    ), false)
$$;
