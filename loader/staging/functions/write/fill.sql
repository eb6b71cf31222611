-- A template with values in place of its {names}. What is put in is not looked at again. Where a value has what a
-- body is written between, as a column's name may, the body is written between something that no value has.
create or replace function cdc.fill(template text, "values" jsonb) returns text
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
declare
    mark constant text := case when "values"::text ~ '[$](routine|reader)[$]' then '_' || md5("values"::text) else '' end;
begin
    return (
        select string_agg(
            piece.text || coalesce("values" ->> piece.name, case when piece.name is not null then '{' || piece.name || '}' end, ''),
            '' order by piece.ordinal
        )
        from (
            select
                one.match[1] as text,
                one.match[2] as name,
                one.ordinal
            from regexp_matches(
                regexp_replace(template, '[$](routine|reader)[$]', '$\1' || mark || '$', 'g'),
                '([^{]*(?:\{(?![a-z_]+\})[^{]*)*)(?:\{([a-z_]+)\})?', 'g'
            ) with ordinality as one (match, ordinal)
        ) as piece
    );
end
$$;
