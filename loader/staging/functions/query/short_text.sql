-- An expression for a text that fits its share of an index: whole, or its beginning and its md5. A character has at
-- most four bytes. They are those of UTF-8, whatever the databases' encodings are; in SQL_ASCII nobody knows
-- characters.
create or replace function cdc.short_text(value text, share integer) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format(
        'case when octet_length(convert_to(%1$s, %4$L)) <= %2$s then %1$s else left(%1$s, %3$s) || ''-'' || md5(convert_to(%1$s, %4$L)) end',
        value, share, (share - 33) / 4, case getdatabaseencoding() when 'SQL_ASCII' then 'SQL_ASCII' else 'UTF8' end
    )
$$;
