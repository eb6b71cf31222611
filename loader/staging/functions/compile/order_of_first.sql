-- What DISTINCT ON sorts the rows of a group by, as an index has it. Null where one is no column of the model, or may
-- be too long for an index, and where equal values of a group may differ: which one it has decides its first row.
create or replace function cdc.order_of_first(nodes cdc.tree_node[], core text, input jsonb, parting text[])
returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
    with columns as (
        select target.fields ->> 'ressortgroupref' as number, a.*, listed.value ->> 'type' as type
        from unnest(nodes) as target
        inner join cdc.follow_columns(nodes) as followed on followed.variable = target.path || '.expr'
        inner join pg_attribute as a on a.attrelid = followed.relation and a.attnum = followed.column_number
        inner join jsonb_array_elements(input -> 'columns') as listed on listed.value ->> 'name' = a.attname
        where target.parent = core and target.type = 'TARGETENTRY'
    )

    select case when bool_and(cdc.is_short(columns.type)) then jsonb_agg(
        quote_ident(columns.attname) || case when o.amopstrategy = 5 then ' desc' else '' end
        || case when (sorting.fields ->> 'nulls_first')::boolean then ' nulls first' else ' nulls last' end
        order by substring(sorting.path from '[0-9]+$')::integer
    ) end
    from unnest(nodes) as sorting
    left join columns on columns.number = sorting.fields ->> 'tleSortGroupRef'
    left join pg_amop as o on o.amopopr = (sorting.fields ->> 'sortop')::oid and o.amopmethod = 403
    where
        sorting.parent = core and sorting.path ~ '\.sortClause\.[0-9]+$' and sorting.fields ->> 'tleSortGroupRef' <> all (parting)
        and not exists (
            select from columns
            where columns.number = any (parting) and not cdc.equal_is_identical(columns.atttypid, columns.atttypmod, columns.attcollation)
        )
    -- Not sorted: any row may be the first.
    having count(*) > 0 and count(*) = count(columns.number)
$$;
