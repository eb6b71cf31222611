-- An aggregate's call as PostgreSQL prints it: its name, its arguments, and the condition of its filter.
create or replace function cdc.split_call(call text, out name text, out arguments text, out condition text)
language sql immutable set search_path = pg_catalog, pg_temp as $$
    with tokens as (
        select
            scanned.*,
            count(*) filter (where scanned.token = ')' and scanned.depth = 1) over (order by scanned.ordinal rows between unbounded preceding and 1 preceding)
                as closed_count
        from cdc.scan(call) as scanned
    )

    select
        split_part(call, '(', 1),
        regexp_replace(
            string_agg(token, '' order by ordinal) filter (where closed_count = 0 and depth > 0 and not (depth = 1 and token in ('(', ')'))),
            '^DISTINCT\s+', ''
        ),
        regexp_replace(
            string_agg(token, '' order by ordinal) filter (where closed_count = 1 and depth > 0 and not (depth = 1 and token in ('(', ')'))),
            '^WHERE\s+', ''
        )
    from tokens
$$;
