-- SQL: a list, or a condition, of these parts; a line that would be long goes on in the next one.
create or replace function cdc.join_lines(parts text[], separator text default ', ') returns text
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
declare
    part text;
    written text;
    width integer := 0;
begin
    foreach part in array parts loop
        if width + length(part) > 90 then
            written := written || rtrim(separator) || e'\n    ';
            width := 0;
        end if;
        written := case when width > 0 then written || separator else coalesce(written, '') end || part;
        width := width + length(part) + length(separator);
    end loop;
    return written;
end
$$;
