-- A source's column without what may grow and changes no value: the number of characters, bits or digits that it takes.
create or replace function cdc.without_widening(own jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select own || jsonb_strip_nulls(jsonb_build_object(
        'exact', regexp_replace(own ->> 'exact', '^(character varying|bit varying|numeric)\(\d+', '\1(')
    ))
$$;
