-- A template with values in place of its {names}. What is put in is not looked at again; it is indented as the line
-- that it stands in, and where it is empty, and nothing else stands there, the line goes. Where a value has what a body
-- is written between, as a column's name may, the body is written between something that no value has.
create or replace function cdc.fill(template text, "values" jsonb) returns text
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
declare
    mark constant text := case when "values"::text ~ '[$](routine|reader)[$]' then '_' || md5("values"::text) else '' end;
    filled text := '';
    -- Of the line that is written.
    line text := '';
    value text;
    piece text[];
    is_gone boolean := false;
begin
    for piece in
        select one.match
        from regexp_matches(
            regexp_replace(template, '[$](routine|reader)[$]', '$\1' || mark || '$', 'g'),
            '([^{]*(?:\{(?![a-z_]+\})[^{]*)*)(?:\{([a-z_]+)\})?', 'g'
        ) with ordinality as one (match, ordinal)
        order by one.ordinal
    loop
        if is_gone and starts_with(piece[1], e'\n') then
            piece[1] := substr(piece[1], 2);
            filled := rtrim(filled, ' ');
            line := '';
        end if;
        line := case when piece[1] ~ '\n' then substring(piece[1] from '[^\n]*$') else line || piece[1] end;
        value := coalesce("values" ->> piece[2], '{' || piece[2] || '}', '');
        is_gone := value = '' and line ~ '^ *$';
        filled := filled || piece[1] || cdc.indent(value, substring(line from '^ *'), line ~ '^ *$');
        line := line || left(value, 1);
    end loop;
    return filled;
end
$$;
