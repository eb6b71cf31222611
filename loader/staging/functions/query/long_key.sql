-- Refuse a row whose key does not fit an index.
create or replace function cdc.long_key(value text) returns text
language plpgsql immutable parallel safe set search_path = pg_catalog as $$
begin
    raise exception 'a value to group by has % characters, too many for an index', length(value) using errcode = '54000';
end
$$;
