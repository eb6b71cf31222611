-- SQL: expressions that are equal where a value is, null included: what an index can find.
create or replace function cdc.null_safe(expression text, type text, is_never_null boolean) returns text[]
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case
        when is_never_null then array[expression]
        when zero.literal is not null
            then array[format('coalesce(%s, %s)', expression, zero.literal), format('((%s) is null)', expression)]
        else array[format('(array[%s])', expression)]
    end
    from (select case type
        when 'boolean' then 'false'
        when 'uuid' then '''00000000-0000-0000-0000-000000000000''::uuid'
        when 'date' then '''1970-01-01''::date'
        when 'timestamp without time zone' then '''1970-01-01''::timestamp'
        when 'timestamp with time zone' then '''1970-01-01 00:00+00''::timestamptz'
        -- Of a text an index holds a hash: see bounded.
        else case
            when type in ('smallint', 'integer', 'bigint', 'numeric') or cdc.is_text(type) and not cdc.is_short(type) then '0'
        end
    end as literal) as zero
$$;
