-- The value, or an error of the row that gives it: a NaN or an infinity would stay in a sum for good.
create or replace function cdc.finite(value numeric) returns numeric
language plpgsql immutable strict parallel safe set search_path = pg_catalog as $$
begin
    if value in ('NaN', 'Infinity', '-Infinity') then
        -- In the words of a source's server, which has no function of ours: see write_range.
        return ('a sum would be ' || value::text)::numeric;
    end if;
    return value;
end
$$;
