-- SQL: the columns of a model's table with their types and constraints. A text has the collation
-- that the query gives it.
create or replace function cdc.column_definitions(compiled jsonb) returns table (name text, sql text, ordinal bigint)
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select
        one.name,
        coalesce(one.exact, one.type)
        || coalesce(' collate ' || (compiled #>> array['collations', one.name]), '')
        || case
            when one.kind = 'expression' and (compiled ->> 'is_total')::boolean
                then format(' generated always as (%s) stored', one.expression)
            -- A group that a batch empties has no rows for a moment, which its query never sees.
            when one.kind = 'expression'
                then format(' generated always as (case when %I > 0 then %s end) stored', compiled ->> 'rows', one.expression)
            when one.kind = 'id' then ' primary key'
            when one.kind = 'key' and compiled ->> 'kind' = 'rows' then ' not null'
            when one.kind = 'part' or one.kind = 'state' and compiled ->> 'kind' <> 'rows' and one.type = 'bigint' and not exists (
                select from jsonb_array_elements(compiled -> 'state_columns') as state
                where state ->> 'name' = one.name and (state ? 'counted_by' or state ->> 'again' !~ '^count')
            ) then ' not null'
            else ''
        end,
        one.ordinal
    from cdc.list_columns(compiled) as one
$$;
