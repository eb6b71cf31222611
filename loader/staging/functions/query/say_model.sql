-- What a compiled model is, how it is kept, and what a person should know of its joins: for the log of dbt and of
-- setup.
create or replace function cdc.say_model(compiled jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select concat_ws('; ', cdc.describe_model(compiled), (select string_agg(note, '; ') from cdc.join_notes(compiled) as note))
$$;
