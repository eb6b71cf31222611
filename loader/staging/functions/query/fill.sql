-- A template with values in place of its {names}. What is put in is not looked at again.
create or replace function cdc.fill(template text, "values" jsonb) returns text
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select string_agg(
            piece.text || coalesce("values" ->> piece.name, case when piece.name is not null then '{' || piece.name || '}' end, ''),
            '' order by piece.place
        )
        from (
            select
                one.match[1] as text,
                one.match[2] as name,
                one.place
            from regexp_matches(template, '([^{]*(?:\{(?![a-z_]+\})[^{]*)*)(?:\{([a-z_]+)\})?', 'g') with ordinality as one (match, place)
        ) as piece
    );
end
$$;
