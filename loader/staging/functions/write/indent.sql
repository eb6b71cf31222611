-- SQL with all lines but the first moved by a margin; with `is_list`, the leftmost of them to it. Where a text or a
-- name goes over lines nothing is moved.
create or replace function cdc.indent(sql text, margin text, is_list boolean default false) returns text
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
declare
    lines constant text[] := string_to_array(sql, e'\n');
    width integer := 0;
begin
    if cardinality(lines) < 2 or cardinality(lines) > cardinality(string_to_array(
        -- Without texts, names and comments.
        regexp_replace(sql, $re$--[^\n]*|'(?:[^']|'')*'|"(?:[^"]|"")*"$re$, '', 'g'), e'\n'
    )) then
        return sql;
    end if;
    if is_list then
        select min(length(line) - length(ltrim(line, ' '))) into width from unnest(lines[2:]) as line where line <> '';
    end if;
    return (
        select string_agg(
            case when one.ordinal = 1 or one.line = '' then one.line else margin || substr(one.line, width + 1) end,
            e'\n' order by one.ordinal
        )
        from unnest(lines) with ordinality as one (line, ordinal)
    );
end
$$;
