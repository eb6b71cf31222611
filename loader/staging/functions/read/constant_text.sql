-- The text of a constant of type text in a parse tree, which prints its bytes behind a header of four; null for any
-- other.
create or replace function cdc.constant_text(fields jsonb) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select convert_from(
        decode(string_agg(lpad(to_hex(byte.value::integer & 255), 2, '0'), '' order by byte.ordinal), 'hex'),
        getdatabaseencoding()
    )
    from regexp_split_to_table(substring(fields ->> 'constvalue' from '\[ (.*) \]'), ' ') with ordinality as byte (value, ordinal)
    where byte.ordinal > 4 and fields ->> 'consttype' = '25' and fields ->> 'constisnull' = 'false'
$$;
