-- Does a type take this text as it is printed under DateStyle ISO and TimeZone UTC? Then a cast never
-- fails, and a value has one text. Dates are those of the years 1 to 9999. `numeric` alone takes the
-- exponent of a double precision, because such values are only added up. The longest text of a numeric(p, s) is
-- that of numeric(1000, -1000) with its sign; a numeric without p may be longer, and is none.
create or replace function cdc.takes(type text, value text) returns boolean
language plpgsql immutable strict parallel unsafe as $$
declare
    parts text[];
    number numeric;
begin
    if type in ('date', 'timestamp', 'timestamptz') then
        -- The parts are cut out by their places: a pattern with groups takes five times as long.
        if value like '0000%' or value !~ (
            '^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])'
            || case when type = 'date' then '' else ' ([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?' end
            || case when type = 'timestamptz' then '\+00$' else '$' end
        ) then
            return false;
        end if;
        return substr(value, 9, 2) <= '28'
            or substr(value, 9, 2)::integer <= extract(
                day from make_date(left(value, 4)::integer, substr(value, 6, 2)::integer, 1)
                + interval '1 month - 1 day'
            );
    elsif type in ('smallint', 'integer', 'bigint') then
        if value !~ '^(0|-?[1-9]\d{0,18})$' then
            return false;
        end if;
        return case type
            when 'smallint' then value::numeric between -32768 and 32767
            when 'integer' then value::numeric between -2147483648 and 2147483647
            else value::numeric between -9223372036854775808 and 9223372036854775807
        end;
    elsif type = 'boolean' then
        return value in ('true', 'false');
    elsif type = 'numeric' then
        return length(value) <= 2001 and value ~ '^-?\d+(\.\d+)?([eE][-+]?\d{1,3})?$';
    end if;
    -- numeric(precision, scale)
    if length(value) > 2001 or value !~ '^-?\d+(\.\d+)?$' then
        return false;
    end if;
    parts := string_to_array(rtrim(substr(type, 9), ')'), ',');
    number := trim_scale(value::numeric);
    return scale(number) <= parts[2]::integer
        and abs(number) < 10::numeric ^ (parts[1]::integer - parts[2]::integer);
end
$$;

comment on function cdc.takes(text, text) is
    'Whether a type takes a text as a value: one bad value must not stop a batch.';
