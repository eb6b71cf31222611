-- Functions, operators, casts and aggregates of a query that do not always give the same, by their signatures: what
-- PostgreSQL would take in an index is taken. What depends on the session's zone alone is where the model has one.
create or replace function cdc.judge_calls(nodes cdc.tree_node[], has_timezone boolean)
returns table (reason text, remedy text, path text)
language sql stable set search_path = pg_catalog, pg_temp as $$
    with calls as (
        select
            node.path,
            node.type,
            coalesce(node.fields ->> 'funcid', node.fields ->> 'aggfnoid', node.fields ->> 'winfnoid', node.fields ->> 'opfuncid')::oid as function_oid
        from unnest(nodes) as node
        where node.type in ('FUNCEXPR', 'AGGREF', 'WINDOWFUNC', 'OPEXPR', 'DISTINCTEXPR', 'NULLIFEXPR', 'SCALARARRAYOPEXPR')
    ),

    known as (
        select
            calls.path,
            p.provolatile as volatility,
            p.proname as name,
            p.pronamespace = 'pg_catalog'::regnamespace
            or p.oid = 'cdc.percentile_disc(double precision, anyarray, numeric[])'::regprocedure as is_built_in,
            p.pronamespace::regnamespace::text || '.' || p.proname as full_name,
            format('%s(%s)', p.proname, oidvectortypes(p.proargtypes)) as signature
        from calls
        inner join pg_proc as p on p.oid = calls.function_oid
    ),

    judged as (
        select
            known.*,
            -- Their results depend on the session's zone and nothing else.
            known.signature in (
                'date(timestamp with time zone)', 'timestamp(timestamp with time zone)',
                'time(timestamp with time zone)', 'timetz(timestamp with time zone)', 'timestamptz(date)',
                'timestamptz(timestamp without time zone)', 'timestamptz(date, time without time zone)',
                'date_part(text, timestamp with time zone)', 'extract(text, timestamp with time zone)',
                'date_trunc(text, timestamp with time zone)', 'timestamptz_pl_interval(timestamp with time zone, interval)',
                'timestamptz_mi_interval(timestamp with time zone, interval)',
                'interval_pl_timestamptz(interval, timestamp with time zone)', 'to_char(timestamp with time zone, text)',
                'to_timestamp(text, text)', 'timezone(timestamp without time zone)',
                'make_timestamptz(integer, integer, integer, integer, integer, double precision)'
            )
            or known.signature ~ '^(timestamptz_(lt|le|eq|ge|gt|ne)_(date|timestamp)|(date|timestamp)_(lt|le|eq|ge|gt|ne)_timestamptz)\(|^(timezone|date_add|date_subtract)\(timestamp with time zone(, interval)?\)'
            as is_zoned,
            known.signature ~ '^(to_char|to_date|to_timestamp|to_number)\(.*text\)$' as is_formatted,
            known.signature ~ '^(concat|concat_ws|format|array_to_string|textanycat|anytextcat|jsonb?_agg|jsonb?_object_agg)\(' as is_spelling,
            known.signature ~ '^(generate_series|repeat|array_fill|lpad|rpad|pg_sleep)\(' as is_unbounded,
            -- What a value looks like depends on nothing that may change.
            not exists (
                select from unnest(nodes) as argument
                where
                    starts_with(argument.path, known.path || '.args.') and argument.type <> 'TARGETENTRY'
                    and substr(argument.path, length(known.path) + 1) ~ '^\.args\.[0-9]+(\.expr)?$'
                    and not cdc.has_plain_text(cdc.node_type(argument.fields))
            ) as has_plain_values,
            exists (
                select from unnest(nodes) as argument
                where
                    argument.parent = known.path
                    and argument.path ~ '\.args\.2$'
                    and argument.type = 'CONST'
                    -- Names of months in the server's language; its signs of currency, decimals and thousands.
                    and cdc.constant_text(argument.fields)
                        !~* case when known.signature ~ 'date|time|interval' then 'TM' else '[LDGS]' end
            ) as has_plain_format,
            not exists (
                select from unnest(nodes) as argument
                where argument.parent = known.path and argument.path ~ '\.args\.[0-9]+$' and argument.type <> 'CONST'
            ) as is_constant
        from known
    )

    select distinct said.reason, said.remedy, judged.path
    from judged
    cross join lateral (
        select
            case
                when not is_built_in then format('%s() is a function of your own', full_name)
                when is_unbounded and not is_constant then format('%s() may take any time and space', name)
                when signature = 'age(timestamp with time zone, timestamp with time zone)'
                    then 'age() of two moments depends on the session''s zone, whatever PostgreSQL says'
                when signature ~ '^to_ascii\(text, '
                    then 'to_ascii() with an encoding, which fails where there is none of that name'
                when volatility = 'i' then null
                when is_zoned and not has_timezone then format(
                    '%s depends on the session''s time zone', case
                        when name ~ '^(date|timestamp|time|timetz|timestamptz)$' then 'a cast to ' || name
                        when name = 'timezone' then 'AT LOCAL'
                        when name in ('to_timestamp', 'make_timestamptz') then name || '()'
                        when signature ~ '_(lt|le|eq|ge|gt|ne)_|_interval' then 'an operation on dates or intervals with a timestamptz'
                        else name || '() of a timestamptz'
                    end
                )
                when is_formatted and not has_plain_format
                    then format('%s() with a format that is not constant, or names things in the server''s language', name)
                when is_zoned or is_formatted then null
                when is_spelling and has_plain_values then null
                when name in ('date_trunc', 'make_timestamptz') and signature ~ ' text\)$' then null
                when is_spelling then format('%s() of values whose spelling depends on settings', name)
                when name ~ '^(now|transaction_timestamp|statement_timestamp|clock_timestamp|timeofday|age)$'
                    then format('%s() is the current time', name)
                when volatility = 'v' then format('%s() is another value at each call', name)
                else format('%s depends on the session''s settings or on other rows', signature)
            end as reason,
            case
                when not is_built_in then 'what it computes, written in the query'
                when is_unbounded and not is_constant then 'a constant in place of the column'
                when signature = 'age(timestamp with time zone, timestamp with time zone)'
                    then 'the difference `a - b`, or age() of both `at time zone`'
                when signature ~ '^to_ascii\(text, ' then 'translate() with the characters to replace'
                when signature = 'timestamptz(date)'
                    then '`d::timestamp` for the date d; or `timezone=''Europe/Berlin''` (your zone) in the model''s config'
                when is_zoned then '`timezone=''Europe/Berlin''` (your zone) in the model''s config, or `... at time zone ''Europe/Berlin''` in the query'
                when is_formatted then 'a constant format in numbers, such as ''YYYY-MM-DD'', or ''9,999.99MI'''
                when is_spelling then 'to_char() of the value with a constant format'
                when name ~ '^(now|transaction_timestamp|statement_timestamp|clock_timestamp|timeofday|age)$'
                    then 'keep the time as a column, and compare with the clock in a view or in the query that reads the model'
                else 'an expression that PostgreSQL would take in an index; or compute it in a view'
            end as remedy
    ) as said
    where said.reason is not null
    union
    select
        format('a text cast to %s can say `today`, or be read in several ways', format_type(cdc.node_type(node.fields), null)),
        'to_date() or to_timestamp() with a format', node.path
    from unnest(nodes) as node
    where
        node.type = 'COERCEVIAIO'
        and not cdc.has_plain_text(cdc.node_type(node.fields), is_input => true)
        and cdc.node_type(node.fields) <> 'cdc.other_value'::regtype
    union
    select
        format('the spelling of a %s depends on settings', format_type(cdc.node_type(argument.fields), null)),
        'to_char() with a constant format, `at time zone` before it for a timestamptz', node.path
    from unnest(nodes) as node
    inner join unnest(nodes) as argument on argument.path = node.path || '.arg'
    where node.type = 'COERCEVIAIO' and not cdc.has_plain_text(cdc.node_type(argument.fields))
$$;
