-- How values of the plugin's JSON are read: runs with search_path set to the staging schema.

-- PostgreSQL 15 has no test for valid JSON. A subtransaction per row, so it is not parallel safe.
-- Only errors that say the text is no JSON are caught: whatever else goes wrong (memory, disk) must
-- stop the batch, or a good change would be rejected.
create function jsonb_or_null(payload text) returns jsonb
language plpgsql immutable strict parallel unsafe as $$
begin
    return payload::jsonb;
exception
    when data_exception or program_limit_exceeded then
        return null;
end
$$;

comment on function jsonb_or_null(text) is
    'The text as jsonb, or null where it is not valid JSON: one bad payload must not stop a batch.';

-- One column of an image: an array of {"name": ..., "value": ...}, or the part of the plugin's
-- message that begins or ends with it. Null where the image lacks the column; a string that is
-- neither empty nor holds a backslash as it is; anything else as a backslash and its JSON. The models
-- read plain strings by themselves and call this for the rest.
create function image_value(image text, name text) returns text
language plpgsql immutable strict parallel unsafe set search_path = pg_catalog, pg_temp as $$
declare
    key constant text := to_json(name)::text;
    token text;
    value jsonb;
begin
    if strpos(image, key) = 0 then
        return null;
    end if;
    -- Unescaped quotes are structure: inside a string each has a backslash before it.
    token := split_part(split_part(image, '{"name":' || key || ',"value":', 2), '}', 1);
    if token <> '' and left(token, 1) not in ('"', '[', '{') then
        return '\' || token;
    end if;
    token := case
        when image like '[%' then image
        when image like '{"action":%' then substr(image, strpos(image, '":[') + 2)
        else '[' || image
    end;
    value := jsonb_path_query_first(
        cdc.jsonb_or_null(rtrim(token, '} ')),
        '$[*] ? (@.name == $name).value',
        jsonb_build_object('name', name)
    );
    token := value #>> '{}';
    if jsonb_typeof(value) = 'string' and token <> '' and strpos(token, '\') = 0 then
        return token;
    end if;
    return '\' || value::text;
end
$$;

-- Does a type take this text as it is printed under DateStyle ISO and TimeZone UTC? Then a cast never
-- fails, and a value has one text. Dates are those of the years 1 to 9999. `numeric` alone takes the
-- exponent of a double precision, because such values are only added up.
create function takes(type text, value text) returns boolean
language plpgsql immutable strict parallel unsafe as $$
declare
    parts text[];
    number numeric;
begin
    if type in ('date', 'timestamp', 'timestamptz') then
        parts := regexp_match(
            value,
            '^(?!0000)(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])'
            '( ([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?)?(\+00)?$'
        );
        return parts is not null
            and (parts[4] is null) = (type = 'date')
            and (parts[7] is null) = (type <> 'timestamptz')
            and (
                parts[3] <= '28'
                or parts[3]::integer <= extract(
                    day from make_date(parts[1]::integer, parts[2]::integer, 1)
                    + interval '1 month - 1 day'
                )
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
        return length(value) <= 1000 and value ~ '^-?\d+(\.\d+)?([eE][-+]?\d{1,3})?$';
    end if;
    -- numeric(precision, scale)
    if length(value) > 1000 or value !~ '^-?\d+(\.\d+)?$' then
        return false;
    end if;
    parts := regexp_match(type, '^numeric\((\d+), *(\d+)\)$');
    number := trim_scale(value::numeric);
    return scale(number) <= parts[2]::integer
        and abs(number) < 10::numeric ^ (parts[1]::integer - parts[2]::integer);
end
$$;

comment on function takes(text, text) is
    'Whether a type takes a text as a value: one bad value must not stop a batch.';

-- The calendar day of a moment in a zone, or the first day of its month, as a date's text; null where
-- the text is no date, timestamp or timestamptz. A date is its own day. A timestamp is one of
-- column_zone.
create function day_of(value text, column_zone text, zone text, of_month boolean) returns text
language plpgsql immutable strict parallel unsafe set search_path = pg_catalog, pg_temp as $$
declare
    type constant text := case
        when right(value, 3) = '+00' then 'timestamptz'
        when length(value) = 10 then 'date'
        else 'timestamp'
    end;
    moment timestamp;
begin
    -- The common form, of days that every month has, needs no second look.
    if
        value !~ '^[1-9]\d{3}-(0[1-9]|1[0-2])-([01][1-9]|[12]0|2[1-8]) ([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?$'
        and not cdc.takes(type, value)
    then
        return null;
    end if;
    moment := case type
        when 'date' then value::timestamp
        when 'timestamp' then value::timestamp at time zone column_zone at time zone zone
        else left(value, -3)::timestamp at time zone 'UTC' at time zone zone
    end;
    if of_month then
        moment := date_trunc('month', moment);
    end if;
    return case
        when extract(year from moment) between 1 and 9999 then to_char(moment, 'YYYY-MM-DD')
    end;
end
$$;
