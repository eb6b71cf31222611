-- Functions, operators, casts and aggregates of a query that do not always give the same, by their signatures: what
-- PostgreSQL would take in an index is taken. What depends on the session's zone alone is where the model has one.
create or replace function cdc.judge_calls(nodes cdc.tree_node[], has_timezone boolean)
returns table (reason text, remedy text, path text)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select distinct said.reason, said.remedy, known.path
    from cdc.read_calls(nodes) as known
    -- The first rule that applies; without a reason what it says is taken.
    cross join lateral (
        select rule.reason, rule.remedy
        from (
            values
            (1, not is_built_in, format('%s() is a function of your own', full_name), 'what it computes, written in the query'),
            (2, is_unbounded and not is_constant, format('%s() may take any time and space', name), 'a constant in place of the column'),
            (3, signature = 'age(timestamp with time zone, timestamp with time zone)',
                'age() of two moments depends on the session''s zone, whatever PostgreSQL says',
                'the difference `a - b`, or age() of both `at time zone`'),
            (4, signature ~ '^to_ascii\(text, ', 'to_ascii() with an encoding, which fails where there is none of that name',
                'translate() with the characters to replace'),
            (5, volatility = 'i', null, null),
            (6, is_zoned and not has_timezone, format('%s depends on the session''s time zone', case
                when name ~ '^(date|timestamp|time|timetz|timestamptz)$' then 'a cast to ' || name
                when name = 'timezone' then 'AT LOCAL'
                when name in ('to_timestamp', 'make_timestamptz') then name || '()'
                when signature ~ '_(lt|le|eq|ge|gt|ne)_|_interval' then 'an operation on dates or intervals with a timestamptz'
                else name || '() of a timestamptz'
            end), case signature
                when 'timestamptz(date)' then '`d::timestamp` for the date d; or `timezone=''Europe/Berlin''` (your zone) in the model''s config'
                else '`timezone=''Europe/Berlin''` (your zone) in the model''s config, or `... at time zone ''Europe/Berlin''` in the query'
            end),
            (7, is_formatted and not has_plain_format,
                format('%s() with a format that is not constant, or names things in the server''s language', name),
                'a constant format in numbers, such as ''YYYY-MM-DD'', or ''9,999.99MI'''),
            (8, is_zoned or is_formatted or is_spelling and has_plain_values, null, null),
            (9, name in ('date_trunc', 'make_timestamptz') and signature ~ ' text\)$', null, null),
            (10, is_spelling, format('%s() of values whose spelling depends on settings', name), 'to_char() of the value with a constant format'),
            (11, is_clock, format('%s() is the current time', name),
                'keep the time as a column, and compare with the clock in a view or in the query that reads the model'),
            (12, true, case volatility when 'v' then format('%s() is another value at each call', name)
                else format('%s depends on the session''s settings or on other rows', signature) end,
                'an expression that PostgreSQL would take in an index; or compute it in a view')
        ) as rule (ordinal, applies, reason, remedy)
        where rule.applies
        order by rule.ordinal
        limit 1
    ) as said
    where said.reason is not null
$$;
