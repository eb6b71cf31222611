-- SQL: a list, or a condition, of these parts; a line that would be long goes on in the next one.
create or replace function cdc.join_lines(parts text[], separator text default ', ') returns text
language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    select string_agg(case
        when place = 1 then part
        when line_no > former_no then rtrim(separator) || e'\n        ' || part
        else separator || part
    end, '' order by place)
    from (select lines.*, lag(line_no) over (order by place) as former_no from (
        select part, place, div(sum(length(part) + length(separator)) over (order by place), 96) as line_no
        from unnest(parts) with ordinality as one (part, place)
    ) as lines) as numbered
$$;
