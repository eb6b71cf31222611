-- A query with its sources under names of ours. Only code is changed, no text and no comment. More than one statement
-- is refused before anything is given to the server.
create or replace function cdc.name_sources(query text, sources jsonb) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    named text := '';
    source record;
    run record;
    is_over boolean := false;
begin
    if exists (
        select from (
            select
                code.token ~* $re$^e?'$re$ as is_literal,
                lag(code.token, 2) over (order by code.place) as second_before,
                lag(code.token) over (order by code.place) as before
            from cdc.scan(query) as code
            where code.token !~ $re$^(\s|--|/\*)$re$
        ) as code
        where code.is_literal and (code.before ~* $re$^e?'$re$ or code.before = '&' and code.second_before ~* '^u$')
    ) then
        raise exception 'Two texts that follow each other, or a text that begins with U&, are not read.'
            using errcode = 'WL003', hint = 'Write one text between quotation marks.';
    end if;
    if exists (
        select from cdc.scan(query) as code
        where
            code.token ~* '^"?waltally_'
            and not exists (
                select from jsonb_array_elements(sources) as own
                where code.token in (own ->> 'name', quote_ident(own ->> 'name'))
            )
    ) then
        raise exception 'A name that begins with waltally_ is not read: such names are ours.'
            using errcode = 'WL003', hint = 'Give it another name.';
    end if;
    for run in
        with tokens as (
            select
                scanned.*,
                scanned.token ~ $re$^([eE]?'|--|/\*)$re$ as is_text,
                scanned.token ~ '^\s' as is_blank
            from cdc.scan(query) as scanned
        ),

        marked as (
            select
                tokens.*,
                sum(case when is_text then 1 else 0 end) over (order by place) * 2 + is_text::integer as run
            from tokens
        )

        select
            bool_or(is_text) as is_text,
            bool_or(token ~ '^/\*.*/\*' and is_text) as is_nested,
            bool_or(token ~ '^\$' and not is_text) as has_dollar,
            min(place) filter (where token = ';') as semicolon,
            max(place) filter (where not is_blank and not token ~ '^(--|/\*)') as last_code,
            string_agg(token, '' order by place) as code
        from marked
        group by marked.run
        order by min(place)
    loop
        if run.is_nested or run.has_dollar then
            raise exception 'A comment within a comment, or a text between dollars, is not read.'
                using errcode = 'WL003', hint = 'Write the text between quotation marks.';
        elsif is_over and run.last_code is not null or run.semicolon < run.last_code then
            raise exception 'A model is one query, and this has several statements.'
                using errcode = 'WL003', hint = 'Write a model for each of them.';
        end if;
        is_over := is_over or run.semicolon is not null;
        if run.is_text then
            named := named || run.code;
            continue;
        end if;
        for source in
            select one.value ->> 'relation' as relation, cdc.stub_name(sources, one.place) as name
            from jsonb_array_elements(sources) with ordinality as one (value, place)
        loop
            run.code := replace(run.code, source.relation, format('pg_temp.%I', source.name));
        end loop;
        named := named || run.code;
    end loop;
    return named;
end
$$;
