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
    token := split_part(image, '{"name":' || key || ',"value":', 2);
    if token <> '' and left(token, 1) not in ('"', '[', '{', '}') then
        return '\' || split_part(token, '}', 1);
    end if;
    -- Only a long string, or another form than the plugin's, needs the whole image parsed.
    value := cdc.jsonb_or_null(substring(left(token, 4000) from '^"(?:[^"\\]|\\.)*"'));
    if value is null then
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
    end if;
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
        return length(value) <= 1000 and value ~ '^-?\d+(\.\d+)?([eE][-+]?\d{1,3})?$';
    end if;
    -- numeric(precision, scale)
    if length(value) > 1000 or value !~ '^-?\d+(\.\d+)?$' then
        return false;
    end if;
    parts := string_to_array(rtrim(substr(type, 9), ')'), ',');
    number := trim_scale(value::numeric);
    return scale(number) <= parts[2]::integer
        and abs(number) < 10::numeric ^ (parts[1]::integer - parts[2]::integer);
end
$$;

comment on function takes(text, text) is
    'Whether a type takes a text as a value: one bad value must not stop a batch.';

-- The period that a moment is in, in a zone, as a text: an hour as the instant at which it begins, a day, week
-- (from Monday on), month, quarter or year as its first day; null where the text is no date, timestamp or
-- timestamptz, and for the hour of a date. Intervals of `900 seconds` are counted from the day's midnight. A date is its own day. A timestamp is one of column_zone.
create function period_of(value text, column_zone text, zone text, unit text) returns text
language plpgsql immutable strict parallel unsafe set search_path = pg_catalog, pg_temp as $$
declare
    type constant text := case
        when right(value, 3) = '+00' then 'timestamptz'
        when length(value) = 10 then 'date'
        else 'timestamp'
    end;
    at timestamptz;
    begins timestamp;
begin
    if not cdc.takes(type, value) then
        return null;
    end if;
    if type = 'date' then
        begins := value::timestamp;
    else
        at := case type
            when 'timestamp' then value::timestamp at time zone column_zone
            else left(value, -3)::timestamp at time zone 'UTC'
        end;
        if unit = 'hour' or unit like '% seconds' then
            begins := case
                when unit = 'hour' then date_trunc('hour', at, zone)
                else date_bin(unit::interval, at, date_trunc('day', at, zone))
            end at time zone 'UTC';
            return case
                when extract(year from begins) between 1 and 9999 then to_char(begins, 'YYYY-MM-DD HH24:MI:SS"+00"')
            end;
        end if;
        begins := at at time zone zone;
    end if;
    if unit = 'hour' or unit like '% seconds' then
        return null;
    elsif unit <> 'day' then
        begins := date_trunc(unit, begins);
    end if;
    return case
        when extract(year from begins) between 1 and 9999 then to_char(begins, 'YYYY-MM-DD')
    end;
end
$$;

-- A date, timestamp or timestamptz as a text whose order under the collation "C" is that of the times in UTC;
-- null where the text is none of them. Infinity, and the years before 1 and after 9999, are only known to be
-- before or after all others.
create function time_order(value text) returns text
language sql immutable strict parallel unsafe set search_path = pg_catalog, pg_temp as $$
    select case
        when value ~ '^(-infinity|\d{4,}-\d\d-\d\d.* BC)$' then ''
        when value ~ '^(infinity|\d{5,}-\d\d-\d\d.*)$' then 'infinity'
        when right(value, 3) = '+00' then case when cdc.takes('timestamptz', value) then left(value, -3) end
        when cdc.takes(case when length(value) = 10 then 'date' else 'timestamp' end, value) then value
    end
$$;

comment on function time_order(text) is
    'A text that is in the order of the times: what at_least and below of a declaration compare.';

-- What is at a path of a JSON document, as image_value gives values: a plain string as it is, `\null` for null and
-- for nothing, anything else as a backslash and its JSON; `\"unreadable"` for a text that is no JSON, or has an
-- escape of a character that no text can hold.
create function value_at(document text, path text[]) returns text
language plpgsql immutable strict parallel unsafe set search_path = pg_catalog, pg_temp as $$
declare
    found text;
begin
    found := document::json #>> path;
    return case
        when found is null then '\null'
        when found = '' or strpos(found, '\') > 0 then '\' || to_json(found)
        else found
    end;
exception
    when data_exception or program_limit_exceeded then
        return '\"unreadable"';
end
$$;
