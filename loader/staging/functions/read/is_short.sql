-- Whether an index takes every value of a type, whatever else it holds.
create or replace function cdc.is_short(type text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select type ~ '^(boolean|smallint|integer|bigint|uuid|date|real|double precision|"char"|(time|timestamp) .*|inet|cidr|macaddr8?|pg_lsn)$'
$$;
