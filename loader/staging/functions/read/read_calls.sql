-- What a query calls, in its tree: functions, operators, casts and aggregates, with what their results depend on.
create or replace function cdc.read_calls(nodes cdc.tree_node[])
returns table (
    path text, volatility "char", name text, full_name text, is_built_in boolean, signature text, is_zoned boolean,
    is_formatted boolean, is_spelling boolean, is_unbounded boolean, is_clock boolean, has_plain_values boolean,
    has_plain_format boolean, is_constant boolean
)
language sql stable set search_path = pg_catalog, pg_temp as $$
    with calls as (
        select
            node.path,
            p.provolatile as volatility,
            p.proname::text as name,
            p.pronamespace::regnamespace::text || '.' || p.proname as full_name,
            p.pronamespace = 'pg_catalog'::regnamespace or cdc.is_of_extension('pg_proc', p.oid)
            or p.oid = 'cdc.percentile_disc(double precision, anyarray, numeric[])'::regprocedure as is_built_in,
            format('%s(%s)', p.proname, oidvectortypes(p.proargtypes)) as signature
        from unnest(nodes) as node
        inner join pg_proc as p
            on p.oid = coalesce(node.fields ->> 'funcid', node.fields ->> 'aggfnoid', node.fields ->> 'winfnoid', node.fields ->> 'opfuncid')::oid
        where node.type in ('FUNCEXPR', 'AGGREF', 'WINDOWFUNC', 'OPEXPR', 'DISTINCTEXPR', 'NULLIFEXPR', 'SCALARARRAYOPEXPR')
    ),

    arguments as (
        select
            calls.path,
            -- What a value looks like depends on nothing that may change.
            bool_and(cdc.has_plain_text(cdc.node_type(argument.fields))) filter (where argument.type <> 'TARGETENTRY') as has_plain_values,
            bool_or(
                argument.path = calls.path || '.args.2' and argument.type = 'CONST'
                -- Names of months in the server's language; its signs of currency, decimals and thousands.
                and cdc.constant_text(argument.fields) !~* case when calls.signature ~ 'date|time|interval' then 'TM' else '[LDGS]' end
            ) as has_plain_format,
            bool_and(argument.type = 'CONST') filter (where argument.parent = calls.path) as is_constant
        from calls
        inner join unnest(nodes) as argument on calls.path = substring(argument.path from '^(.*)\.args\.[0-9]+(\.expr)?$')
        group by calls.path
    )

    select
        calls.*,
        -- Their results depend on the session's zone and nothing else.
        signature in (
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
        or signature ~ '^(timestamptz_(lt|le|eq|ge|gt|ne)_(date|timestamp)|(date|timestamp)_(lt|le|eq|ge|gt|ne)_timestamptz)\(|^(timezone|date_add|date_subtract)\(timestamp with time zone(, interval)?\)'
        as is_zoned,
        signature ~ '^(to_char|to_date|to_timestamp|to_number)\(.*text\)$' as is_formatted,
        signature ~ '^(concat|concat_ws|format|array_to_string|textanycat|anytextcat|jsonb?_agg|jsonb?_object_agg)\(' as is_spelling,
        signature ~ '^(generate_series|repeat|array_fill|lpad|rpad|pg_sleep)\(' as is_unbounded,
        name ~ '^(now|transaction_timestamp|statement_timestamp|clock_timestamp|timeofday|age)$' as is_clock,
        coalesce(arguments.has_plain_values, true),
        coalesce(arguments.has_plain_format, false),
        coalesce(arguments.is_constant, true)
    from calls
    left join arguments using (path)
$$;
