-- How long the values of a key may be so that an index can have them, 2,704 bytes in all. Its texts share 2,000 of
-- these, of which one has at most 1,000. Its numerics and byteas share 1,000 characters, half as many bytes there.
create or replace function cdc.key_limits(keys jsonb, types jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select jsonb_build_object(
        'text_share', least(1000, 2000 / greatest(count(*) filter (where cdc.is_text(own.type)), 1)),
        'long_share', 1000 / greatest(count(*) filter (where own.type in ('numeric', 'bytea')), 1)
    )
    from jsonb_array_elements(keys) as key
    cross join lateral (select types ->> (key.value ->> 'name') as type) as own
$$;
