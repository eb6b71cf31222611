-- The first part of the template of write_reader: the changes between the bounds, each with the number of its table,
-- and the last TRUNCATE of each table.
create or replace function cdc.reader_named() returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select
$template$    with change_log as (
        select
            commit_lsn,
            ordinal,
            action,
            octet_length(payload) > 1000000 and action is not null as is_long,
            -- It may be stored compressed or out of line: read it once, not at each use. A long one stays there: see cut_tokens.
            case when octet_length(payload) > 1000000 and action is not null then payload else payload || '' end as payload,
            case when action is null then cdc.jsonb_or_null(payload) end as message
        from cdc.change_log
        where
            slot_name = $1
            and commit_lsn >= $4
            and commit_lsn <= $6
            and (commit_lsn, ordinal) >= ($4, $5)
            and (commit_lsn, ordinal) < ($6, $7)
        offset 0
    ),

    headed as (
        select
            *,
            coalesce(action::text, message ->> 'action') as said_action,
            -- Of the plugin's own message: the names, and what of it comes before the first row.
            split_part(split_part(case when is_long then left(payload, 2000) else payload end, '":[', 1), ',"schema":', 2) as header
        from change_log
        offset 0
    ),

    named as (
        select
            *,
            case
                {plain_tables}
                -- Another table, unless its name has to be read as JSON.
                when action is not null and header ~ '^"[^"\\]*","table":"[^"\\]*"' then 0
                else (
                    select case parsed.message ->> 'schema' || '.' || (parsed.message ->> 'table')
                        {tables}
                        else case when parsed.message ? 'schema' and parsed.message ? 'table' then 0 end
                    end
                    from (
                        select coalesce(message, cdc.jsonb_or_null(case when is_long then format('{"schema":%s":[]}', header) else payload end)) as message
                    ) as parsed
                )
            end as table_no
        from headed
        offset 0
    ),

    -- The last TRUNCATE of each table. The condition is that of the index change_log_truncates, word for word, or the
    -- whole batch would be read.
    truncates as (
        select distinct on (numbered.table_no)
            numbered.table_no,
            log.commit_lsn,
            log.ordinal
        from cdc.change_log as log
        cross join lateral (select cdc.jsonb_or_null(log.payload) as message) as parsed
        inner join (values {numbered}) as numbered (table_no, name)
            on numbered.name = (parsed.message ->> 'schema') || '.' || (parsed.message ->> 'table')
        where
            log.slot_name = $1
            and log.commit_lsn >= $2
            and log.commit_lsn < $3
            and (log.action is null or log.action = 'T')
            and parsed.message ->> 'action' = 'T'
        order by numbered.table_no asc, log.commit_lsn desc, log.ordinal desc
    ),$template$
$$;
