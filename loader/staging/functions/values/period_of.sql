-- The period that a moment is in, in a zone, as a text: an hour as the instant at which it begins, a day, week
-- (from Monday on), month, quarter or year as its first day; null where the text is no date, timestamp or
-- timestamptz, and for the hour of a date. Intervals of `900 seconds` are counted from the day's midnight: the first
-- one, where a clock is put back over midnight and shows it twice. A date is its own day. A timestamp is one of
-- column_zone.
create or replace function cdc.period_of(value text, column_zone text, zone text, unit text) returns text
language plpgsql immutable strict parallel unsafe set search_path = pg_catalog, pg_temp as $$
declare
    type constant text := case
        when right(value, 3) = '+00' then 'timestamptz'
        when length(value) = 10 then 'date'
        else 'timestamp'
    end;
    at timestamptz;
    midnight timestamp;
    earlier timestamptz;
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
            if unit = 'hour' then
                begins := date_trunc('hour', at, zone) at time zone 'UTC';
            else
                -- Of two midnights `at time zone` takes the later one.
                midnight := date_trunc('day', at at time zone zone);
                earlier := (midnight - interval '1 day') at time zone zone + interval '24 hours';
                begins := date_bin(unit::interval, at, least(
                    midnight at time zone zone, case when earlier at time zone zone = midnight then earlier end
                )) at time zone 'UTC';
            end if;
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
