-- The name that a source's stub has while PostgreSQL reads a query: the table's own, which the query may use for its
-- columns, unless two sources have it.
create or replace function cdc.stub_name(sources jsonb, place bigint) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case
        when count(*) filter (where one.value ->> 'name' = sources -> (place::integer - 1) ->> 'name') > 1
            then 'waltally_source_' || place
        else sources -> (place::integer - 1) ->> 'name'
    end
    from jsonb_array_elements(sources) as one
$$;
