-- True, or an error of the row whose key it is: a NaN, which is null when it is read, or too long for an index.
create or replace function cdc.check_key(null_count integer, size integer) returns boolean
language plpgsql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
begin
    if null_count > 0 then
        raise exception 'the key has a NaN or an infinity' using errcode = '22004';
    elsif size > 2600 then
        raise exception 'the key does not fit an index' using errcode = '54000';
    end if;
    return true;
end
$$;
