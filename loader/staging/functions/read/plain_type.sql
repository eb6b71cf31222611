-- A type as SQL writes it without a length: `character` would have the length 1, and values of an enum are text.
create or replace function cdc.plain_type(type_oid oid) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    return regexp_replace(
        regexp_replace(regexp_replace(format_type(type_oid, null), '^character(\[\])?$', 'bpchar\1'), '^bit(\[\])?$', '"bit"\1'),
        '^waltally_enum_[0-9a-f]+(\[\])?$', 'text\1'
    );
end
$$;
