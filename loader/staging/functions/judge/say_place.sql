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
