-- Whether an expression over a row takes whatever values it has. An index on another one would make the model below
-- fail with a row of which only the dependent can make nothing.
create or replace function cdc.never_fails(expression text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select not coalesce(bool_or(
        one.token ~ '^[-+*/%^|&#~!@?\[{$]$'
        or one.next_token = '(' and one.token ~ '^["[:alpha:]_]' and one.token !~ (
            '^(CASE|WHEN|THEN|ELSE|AND|OR|NOT|COALESCE|NULLIF|GREATEST|LEAST|lower|upper|left|concat|trim_scale|date_trunc|timezone)$'
        )
        or one.former_token = ':' and one.token !~ '^(:|text|date)$'
    ), false)
    from (
        select
            scanned.token,
            lead(scanned.token) over (order by scanned.ordinal) as next_token,
            lag(scanned.token) over (order by scanned.ordinal) as former_token
        from cdc.scan(expression) as scanned
        where scanned.token !~ '^\s+$'
    ) as one
$$;
