-- The value, or an error of the row that gives it: a NaN or an infinity would stay in a sum for good.
create or replace function cdc.finite(value numeric) returns numeric
language plpgsql immutable strict parallel safe set search_path = pg_catalog as $$
begin
    if value in ('NaN', 'Infinity', '-Infinity') then
        raise exception 'a sum would be %', value using errcode = '22003';
    end if;
    return value;
end
$$;
