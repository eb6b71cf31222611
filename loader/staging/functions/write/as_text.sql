-- SQL: the text of a value as its type writes it. A cast would take the blanks of char(n).
create or replace function cdc.as_text(value text, type text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format(case type when 'bpchar' then 'textin(bpcharout(%s))' else '%s::text' end, value)
$$;
