-- How long ago a moment was, in seconds; of one that is still to come 0.
create or replace function cdc.seconds_since(moment timestamptz) returns double precision
language sql stable strict set search_path = pg_catalog, pg_temp as $$
    select greatest(round(extract(epoch from now() - moment)::numeric, 1), 0)::double precision
$$;
