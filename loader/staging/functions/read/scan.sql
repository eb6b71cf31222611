-- The tokens of SQL in their order, blanks and comments among them, each with the depth of its brackets. What
-- PostgreSQL would read in another way is refused: a comment within a comment, and a text between dollars.
create or replace function cdc.scan(sql text)
returns table (ordinal bigint, token text, depth bigint)
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
begin
    return query
    with tokens as (
        select
            one.ordinal,
            one.match[1] as token
        from regexp_matches(
            sql,
            $re$[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*(?:[^*]|\*+[^*/])*\*+/|$re$
            || $re$\$[[:alpha:]_]*\$|[[:alpha:]_][[:alnum:]_$]*|[0-9]+(?:\.[0-9]*)?|\s+|.$re$,
            'g'
        ) with ordinality as one (match, ordinal)
    )

    select
        tokens.ordinal,
        tokens.token,
        -- A bracket belongs to what it encloses.
        sum(case when tokens.token in ('(', '[') then 1 else 0 end) over (order by tokens.ordinal)
        - coalesce(sum(case when tokens.token in (')', ']') then 1 else 0 end) over (
            order by tokens.ordinal rows between unbounded preceding and 1 preceding
        ), 0)
    from tokens;
end
$$;
