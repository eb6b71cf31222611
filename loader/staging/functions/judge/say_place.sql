-- Where a part of a query stands, for a person: the column that it is computed for, or its clause. Null of what is of
-- the whole query. (The catalog of PostgreSQL 17 and later does not keep where in the text it was.)
create or replace function cdc.say_place(nodes cdc.tree_node[], node_path text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(
        (
            select format('column %I', entry.fields ->> 'resname')
            from unnest(nodes) as entry
            where entry.path = substring(own.path from '^.*\.targetList\.[0-9]+') and entry.fields ->> 'resname' is not null
        ),
        -- From PostgreSQL 18 on a column of the list that is grouped is a variable of what the query groups by.
        (
            select format('column %I', entry.fields ->> 'resname')
            from regexp_match(own.path, '^(.*)\.rtable\.([0-9]+)\.groupexprs\.([0-9]+)') as grouped
            inner join unnest(nodes) as entry on entry.parent = grouped[1] and entry.type = 'TARGETENTRY'
            inner join unnest(nodes) as variable on variable.path = entry.path || '.expr' and variable.type = 'VAR'
            where
                variable.fields ->> 'varno' = grouped[2] and variable.fields ->> 'varattno' = grouped[3]
                and entry.fields ->> 'resname' is not null
            order by entry.path
            limit 1
        ),
        case
            when own.path ~ '\.jointree\.quals(\.|$)' then 'WHERE'
            when own.path ~ '\.quals(\.|$)' then 'ON'
            when own.path ~ '\.functions\.' then 'FROM'
            when own.path ~ '\.groupexprs\.' then 'GROUP BY'
        end
    )
    -- A sub-select is a part of what asks it.
    from (select regexp_replace(node_path, '\.subselect(\..*)?$', '') as path) as own
$$;
