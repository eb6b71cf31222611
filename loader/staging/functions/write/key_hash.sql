-- SQL: a hash of a group's key, by which an index finds it where a value is too long for an index. Null where every
-- key fits: that of rows does so at the source.
create or replace function cdc.key_hash(compiled jsonb, row_name text default null) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case when compiled ->> 'kind' <> 'rows' and exists (
        select from jsonb_array_elements(compiled -> 'keys') as key
        where key.value ->> 'type' !~ '^(boolean|smallint|integer|bigint|"char"|name|uuid|date|inet|cidr|macaddr8?|pg_lsn|(time|timestamp) .*)$'
    ) then format('hash_record_extended(row(%s), 0)', cdc.write_names(
        jsonb_path_query_array(compiled -> 'keys', '$[*] ? (!exists (@.has_no_hash))'),
        coalesce(quote_ident(row_name) || '.', '') || '%I'
    )) end
$$;
