-- Compiled by dbt and installed in the database; `make generated` writes this file.
create or replace function cdc.read_changes(
    slot text,
    from_lsn pg_lsn,
    to_lsn pg_lsn,
    first_lsn pg_lsn,
    first_ordinal bigint,
    end_lsn pg_lsn,
    end_ordinal bigint,
    is_each boolean
) returns "cdc".change[]
language plpgsql security definer
set search_path = pg_catalog, pg_temp set row_security = off set jit = off set enable_sort = off
set plan_cache_mode = force_generic_plan set lock_timeout = '1s'
as $reader$
declare
    changes "cdc".change[];
begin
    with change_log as (
        select
            commit_lsn,
            ordinal,
            action,
            -- A long payload is stored compressed or out of line: read it once, not at each use.
            payload || '' as payload,
            case when action is null then "cdc".jsonb_or_null(payload) end as message
        from "cdc".change_log
        where
            slot_name = $1
            and commit_lsn >= $4
            and commit_lsn <= $6
            and (commit_lsn, ordinal) >= ($4, $5)
            and (commit_lsn, ordinal) < ($6, $7)
        offset 0
    ),

    named as (
        select
            *,
            coalesce(action::text, message ->> 'action') as said_action,
            case
                when action is not null and strpos(payload, '"schema":"public","table":"notification_history"') > 0 then 1
                when action is not null and strpos(payload, '"schema":"public","table":"notifications"') > 0 then 2
                -- Another table, unless its name has to be read as JSON.
                when action is not null and left(payload, 512) ~ '"schema":"[^"\\]*","table":"[^"\\]*"' then 0
                else (
                    select case parsed.message ->> 'schema' || '.' || (parsed.message ->> 'table')
                        when 'public.notification_history' then 1
                        when 'public.notifications' then 2
                        else case when parsed.message ? 'schema' and parsed.message ? 'table' then 0 end
                    end
                    from (select coalesce(message, "cdc".jsonb_or_null(payload)) as message) as parsed
                )
            end as table_no
        from change_log
        offset 0
    ),

    -- The last TRUNCATE of each table. The condition is that of the index change_log_truncates, word for word, or the
    -- whole batch would be read.
    truncates as (
        select distinct on (numbered.table_no)
            numbered.table_no,
            log.commit_lsn,
            log.ordinal
        from "cdc".change_log as log
        cross join lateral (select "cdc".jsonb_or_null(log.payload) as message) as parsed
        inner join (values (1, 'public.notification_history'), (2, 'public.notifications')) as numbered (table_no, name)
            on numbered.name = (parsed.message ->> 'schema') || '.' || (parsed.message ->> 'table')
        where
            log.slot_name = $1
            and log.commit_lsn >= $2
            and log.commit_lsn < $3
            and (log.action is null or log.action = 'T')
            and parsed.message ->> 'action' = 'T'
        order by numbered.table_no asc, log.commit_lsn desc, log.ordinal desc
    ),

    images as (
        select
            named.commit_lsn,
            named.ordinal,
            named.said_action as action,
            named.table_no,
            case
                when named.action is null and named.message is null then 'the payload is not valid JSON'
                -- Of a row that the target cannot hold as text the loader keeps the bytes under this name.
                when named.message ? 'undecodable' then 'the text of the row does not fit the target''s encoding'
                when named.said_action is null or named.said_action not in ('I', 'U', 'D', 'T')
                    then 'the action is not known'
                when named.table_no is null then 'the change names no table'
            end as problem,
            -- wal2json prints the columns before the identity, so the new image is what comes before. Where there is
            -- only one image, the whole text is searched. Not by strpos: on a long text it counts the characters.
            case named.action
                when 'I' then null
                when 'U' then nullif(split_part(named.payload, ',"identity":[', 2), '')
                when 'D' then named.payload
                else "cdc".plain_image(named.message -> 'identity')
            end as old_image,
            case named.action
                when 'I' then named.payload
                when 'U' then split_part(named.payload, ',"identity":[', 1)
                when 'D' then null
                else "cdc".plain_image(named.message -> 'columns')
            end as new_image,
            ((named.commit_lsn, named.ordinal) < (truncates.commit_lsn, truncates.ordinal)) is true as is_cancelled
        from named
        left join truncates on truncates.table_no = named.table_no
        where
            -- Transaction bounds and messages hold no row; 0 is a table that no model reads.
            coalesce(named.said_action not in ('B', 'C', 'M'), true)
            and named.table_no is distinct from 0
        offset 0
    ),

    -- Null where an image lacks the column. A large value that was not changed is not in the new one.
    tokens as (
        select
            *,
            case table_no
                when 1 then array[nullif(split_part(split_part(old_image, '{"name":"notification_status","value":', 2), ',{"name":', 1), ''),
                    nullif(split_part(split_part(old_image, '{"name":"notification_type","value":', 2), ',{"name":', 1), ''),
                    nullif(split_part(split_part(old_image, '{"name":"service_id","value":', 2), ',{"name":', 1), ''),
                    nullif(split_part(split_part(old_image, '{"name":"template_id","value":', 2), ',{"name":', 1), '')]::text[]
                when 2 then array[nullif(split_part(split_part(old_image, '{"name":"notification_status","value":', 2), ',{"name":', 1), ''),
                    nullif(split_part(split_part(old_image, '{"name":"notification_type","value":', 2), ',{"name":', 1), ''),
                    nullif(split_part(split_part(old_image, '{"name":"service_id","value":', 2), ',{"name":', 1), ''),
                    nullif(split_part(split_part(old_image, '{"name":"template_id","value":', 2), ',{"name":', 1), '')]::text[]
            end as old_tokens,
            case table_no
                when 1 then array[coalesce(nullif(split_part(split_part(new_image, '{"name":"notification_status","value":', 2), ',{"name":', 1), ''), nullif(split_part(split_part(old_image, '{"name":"notification_status","value":', 2), ',{"name":', 1), '')),
                    coalesce(nullif(split_part(split_part(new_image, '{"name":"notification_type","value":', 2), ',{"name":', 1), ''), nullif(split_part(split_part(old_image, '{"name":"notification_type","value":', 2), ',{"name":', 1), '')),
                    coalesce(nullif(split_part(split_part(new_image, '{"name":"service_id","value":', 2), ',{"name":', 1), ''), nullif(split_part(split_part(old_image, '{"name":"service_id","value":', 2), ',{"name":', 1), '')),
                    coalesce(nullif(split_part(split_part(new_image, '{"name":"template_id","value":', 2), ',{"name":', 1), ''), nullif(split_part(split_part(old_image, '{"name":"template_id","value":', 2), ',{"name":', 1), ''))]::text[]
                when 2 then array[coalesce(nullif(split_part(split_part(new_image, '{"name":"notification_status","value":', 2), ',{"name":', 1), ''), nullif(split_part(split_part(old_image, '{"name":"notification_status","value":', 2), ',{"name":', 1), '')),
                    coalesce(nullif(split_part(split_part(new_image, '{"name":"notification_type","value":', 2), ',{"name":', 1), ''), nullif(split_part(split_part(old_image, '{"name":"notification_type","value":', 2), ',{"name":', 1), '')),
                    coalesce(nullif(split_part(split_part(new_image, '{"name":"service_id","value":', 2), ',{"name":', 1), ''), nullif(split_part(split_part(old_image, '{"name":"service_id","value":', 2), ',{"name":', 1), '')),
                    coalesce(nullif(split_part(split_part(new_image, '{"name":"template_id","value":', 2), ',{"name":', 1), ''), nullif(split_part(split_part(old_image, '{"name":"template_id","value":', 2), ',{"name":', 1), ''))]::text[]
            end as new_tokens
        from images
        -- Without this the planner repeats each search wherever its result is used.
        offset 0
    ),

    valued as (
        select
            table_no,
            action,
            commit_lsn,
            ordinal,
            is_cancelled,
            coalesce(problem, case
                when action in ('U', 'D') and old_image is null then 'the replica identity carries no old row'
                when action in ('U', 'I') and new_image is null then 'the change has no row'
            end) as problem,
            case table_no
                when 1 then array[case left(old_tokens[1], 1) when '"' then case when strpos(split_part(old_tokens[1], '"', 2), '\') = 0 then split_part(old_tokens[1], '"', 2) else "cdc".json_string(old_tokens[1]) end when 'n' then null else split_part(old_tokens[1], '}', 1) end,
                    case left(old_tokens[2], 1) when '"' then case when strpos(split_part(old_tokens[2], '"', 2), '\') = 0 then split_part(old_tokens[2], '"', 2) else "cdc".json_string(old_tokens[2]) end when 'n' then null else split_part(old_tokens[2], '}', 1) end,
                    case left(old_tokens[3], 1) when '"' then case when strpos(split_part(old_tokens[3], '"', 2), '\') = 0 then split_part(old_tokens[3], '"', 2) else "cdc".json_string(old_tokens[3]) end when 'n' then null else split_part(old_tokens[3], '}', 1) end,
                    case left(old_tokens[4], 1) when '"' then case when strpos(split_part(old_tokens[4], '"', 2), '\') = 0 then split_part(old_tokens[4], '"', 2) else "cdc".json_string(old_tokens[4]) end when 'n' then null else split_part(old_tokens[4], '}', 1) end]::text[]
                when 2 then array[case left(old_tokens[1], 1) when '"' then case when strpos(split_part(old_tokens[1], '"', 2), '\') = 0 then split_part(old_tokens[1], '"', 2) else "cdc".json_string(old_tokens[1]) end when 'n' then null else split_part(old_tokens[1], '}', 1) end,
                    case left(old_tokens[2], 1) when '"' then case when strpos(split_part(old_tokens[2], '"', 2), '\') = 0 then split_part(old_tokens[2], '"', 2) else "cdc".json_string(old_tokens[2]) end when 'n' then null else split_part(old_tokens[2], '}', 1) end,
                    case left(old_tokens[3], 1) when '"' then case when strpos(split_part(old_tokens[3], '"', 2), '\') = 0 then split_part(old_tokens[3], '"', 2) else "cdc".json_string(old_tokens[3]) end when 'n' then null else split_part(old_tokens[3], '}', 1) end,
                    case left(old_tokens[4], 1) when '"' then case when strpos(split_part(old_tokens[4], '"', 2), '\') = 0 then split_part(old_tokens[4], '"', 2) else "cdc".json_string(old_tokens[4]) end when 'n' then null else split_part(old_tokens[4], '}', 1) end]::text[]
            end as old_values,
            case table_no
                when 1 then array[case left(new_tokens[1], 1) when '"' then case when strpos(split_part(new_tokens[1], '"', 2), '\') = 0 then split_part(new_tokens[1], '"', 2) else "cdc".json_string(new_tokens[1]) end when 'n' then null else split_part(new_tokens[1], '}', 1) end,
                    case left(new_tokens[2], 1) when '"' then case when strpos(split_part(new_tokens[2], '"', 2), '\') = 0 then split_part(new_tokens[2], '"', 2) else "cdc".json_string(new_tokens[2]) end when 'n' then null else split_part(new_tokens[2], '}', 1) end,
                    case left(new_tokens[3], 1) when '"' then case when strpos(split_part(new_tokens[3], '"', 2), '\') = 0 then split_part(new_tokens[3], '"', 2) else "cdc".json_string(new_tokens[3]) end when 'n' then null else split_part(new_tokens[3], '}', 1) end,
                    case left(new_tokens[4], 1) when '"' then case when strpos(split_part(new_tokens[4], '"', 2), '\') = 0 then split_part(new_tokens[4], '"', 2) else "cdc".json_string(new_tokens[4]) end when 'n' then null else split_part(new_tokens[4], '}', 1) end]::text[]
                when 2 then array[case left(new_tokens[1], 1) when '"' then case when strpos(split_part(new_tokens[1], '"', 2), '\') = 0 then split_part(new_tokens[1], '"', 2) else "cdc".json_string(new_tokens[1]) end when 'n' then null else split_part(new_tokens[1], '}', 1) end,
                    case left(new_tokens[2], 1) when '"' then case when strpos(split_part(new_tokens[2], '"', 2), '\') = 0 then split_part(new_tokens[2], '"', 2) else "cdc".json_string(new_tokens[2]) end when 'n' then null else split_part(new_tokens[2], '}', 1) end,
                    case left(new_tokens[3], 1) when '"' then case when strpos(split_part(new_tokens[3], '"', 2), '\') = 0 then split_part(new_tokens[3], '"', 2) else "cdc".json_string(new_tokens[3]) end when 'n' then null else split_part(new_tokens[3], '}', 1) end,
                    case left(new_tokens[4], 1) when '"' then case when strpos(split_part(new_tokens[4], '"', 2), '\') = 0 then split_part(new_tokens[4], '"', 2) else "cdc".json_string(new_tokens[4]) end when 'n' then null else split_part(new_tokens[4], '}', 1) end]::text[]
            end as new_values,
            case
                when
                    problem is null
                    and (
                        array_position(old_tokens, null) is not null and action in ('U', 'D')
                        or array_position(new_tokens, null) is not null and action in ('U', 'I')
                    )
                    then array(
                        select one.place::integer from unnest(old_tokens) with ordinality as one (token, place)
                        where one.token is null and action in ('U', 'D')
                        union
                        select one.place::integer from unnest(new_tokens) with ordinality as one (token, place)
                        where one.token is null and action in ('U', 'I')
                        union
                        select -one.place::integer from unnest(new_tokens) with ordinality as one (token, place)
                        where one.token is null and action = 'U'
                    )
            end as missing
        from tokens
        offset 0
    ),

    kept as (
        select
            *,
            $8 or table_no is null or table_no = 1 and action = 'D' as is_alone
        from valued
        -- An update that moves none of the values.
        where (action = 'U' and problem is null and missing is null and old_values = new_values) is not true
    ),

    grouped as (
        select
            table_no,
            action,
            case when is_alone then commit_lsn end as commit_lsn,
            case when $8 or table_no is null then ordinal end as ordinal,
            is_cancelled,
            problem,
            old_values,
            new_values,
            count(*) as change_count,
            max(commit_lsn) as last_lsn,
            missing
        from kept
        group by 1, 2, 3, 4, is_cancelled, problem, old_values, new_values, missing
    )

    select array_agg(row(
        table_no, action, commit_lsn, ordinal, is_cancelled, problem, old_values, new_values, change_count, last_lsn, missing
    )::"cdc".change)
    into changes
    from grouped;
    return changes;
end
$reader$
