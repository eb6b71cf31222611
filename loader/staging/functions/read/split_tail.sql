-- FROM and WHERE of what comes after a select's list; where_part is null without a condition.
create or replace function cdc.split_tail(tail text, out from_part text, out where_part text)
language sql immutable set search_path = pg_catalog, pg_temp as $$
    with marked as (
        select
            scanned.ordinal,
            scanned.token,
            count(*) filter (where scanned.depth = 0 and scanned.token in ('WHERE', 'GROUP')) over (order by scanned.ordinal) as clause_no
        from cdc.scan(tail) as scanned
    ),

    clauses as (
        select clause_no, string_agg(token, '' order by ordinal) as text from marked group by clause_no
    )

    select
        (select clauses.text from clauses where clauses.clause_no = 0),
        (select substr(clauses.text, 6) from clauses where clauses.clause_no = 1 and starts_with(clauses.text, 'WHERE'))
$$;
