-- Compiled by dbt and installed in the database; `make generated` writes this file.
create or replace function read_changes(
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
set search_path = pg_catalog, pg_temp
set row_security = off
set enable_sort = off
set plan_cache_mode = force_generic_plan
set lock_timeout = '1s'
as $reader$
#variable_conflict use_column
declare
    changes "cdc".change[];
begin
    select array_agg(row(batch.*)::"cdc".change) into changes
    from (
        with change_log as (
    select
        commit_lsn,
        ordinal,
        action,
        -- A long payload is stored compressed or out of line: read it once, not at each use.
        payload || '' as payload,
        case
            when action is null then "cdc".jsonb_or_null(payload)
        end as message
    from "cdc"."change_log"
    where slot_name = $1 and commit_lsn >= $4 and commit_lsn <= $6
    and (commit_lsn, ordinal) >= ($4, $5) and (commit_lsn, ordinal) < ($6, $7)
    offset 0
),

recognised as (
    select
        *,
        -- The action of a change that is printed exactly as wal2json prints it, so that its images can be cut out of
        -- the text. The loader notes it. A row without it was written by hand or by an older loader: its
        -- beginning tells.
        case
            when action is not null then action::text
            when message is null then null
            when left(payload, 500) ~ '^{"action":"[IU]",("[a-z]+":("[^"\\]*"|\d+),)+"columns":\['
                then substr(payload, 12, 1)
            when left(payload, 500) ~ '^{"action":"D",("[a-z]+":("[^"\\]*"|\d+),)+"identity":\['
                then 'D'
        end as plugin_action
    from change_log
    offset 0
),

named as (
    select
        *,
        coalesce(plugin_action, message ->> 'action') as said_action,
        case
            when plugin_action is not null and strpos(payload, '"schema":"public","table":"notification_history"') > 0
                then 1
            when plugin_action is not null and strpos(payload, '"schema":"public","table":"notifications"') > 0
                then 2
            when plugin_action is not null and left(payload, 512) ~ '"schema":"[^"\\]*","table":"[^"\\]*"'
                then 0
            else (
                select case parsed.change ->> 'schema' || '.' || (parsed.change ->> 'table')
                    when 'public.notification_history' then 1
                    when 'public.notifications' then 2
                    else case when parsed.change ? 'schema' and parsed.change ? 'table' then 0 end
                end
                from (
                    select
                        coalesce(
                            message, "cdc".jsonb_or_null(payload)
                        ) as change
                ) as parsed
            )
        end as table_no
    from recognised
    offset 0
),

-- The last TRUNCATE of each table. The condition is that of the index change_log_truncates, word for word, or the
-- whole batch would be read.
truncates as (
    select distinct on (numbered.table_no)
        numbered.table_no,
        log.commit_lsn,
        log.ordinal
    from "cdc"."change_log" as log
    cross join lateral (
        select "cdc".jsonb_or_null(log.payload) as message
    ) as parsed
    inner join (
        values
        (1, 'public.notification_history'),
        (2, 'public.notifications')
    ) as numbered (table_no, name)
        on numbered.name = (parsed.message ->> 'schema') || '.' || (parsed.message ->> 'table')
    where
        log.slot_name = $1
        and log.commit_lsn >= $2 and log.commit_lsn < $3
        and (log.action is null or log.action = 'T')
        and parsed.message ->> 'action' = 'T'
    order by numbered.table_no asc, log.commit_lsn desc, log.ordinal desc
),

cut as (
    select
        named.commit_lsn,
        named.ordinal,
        named.said_action as action,
        named.table_no,
        case
            when named.plugin_action is null and named.message is null then 'the payload is not valid JSON'
            -- Of a row that the target cannot hold as text the loader keeps the bytes under this name.
            when named.message ? 'undecodable' then 'the text of the row does not fit the target''s encoding'
            when named.said_action is null or named.said_action not in ('I', 'U', 'D', 'T')
                then 'the action is not known'
            when named.table_no is null then 'the change names no table'
        end as problem,
        -- wal2json prints the columns before the identity, so the new image is what comes before. Where there is
        -- only one image, the whole text is searched. Not by strpos: on a long text it counts the characters up
        -- to what it finds.
        case plugin_action
            when 'I' then null
            when 'U' then nullif(split_part(payload, ',"identity":[', 2), '')
            when 'D' then payload
            else (message -> 'identity')::text
        end as old_image,
        case plugin_action
            when 'I' then payload
            when 'U' then split_part(payload, ',"identity":[', 1)
            when 'D' then null
            else (message -> 'columns')::text
        end as new_image,
        (
            (named.commit_lsn, named.ordinal) < (truncates.commit_lsn, truncates.ordinal)
        ) is true as is_cancelled
    from named
    left join truncates on named.table_no = truncates.table_no
    where
        -- Transaction bounds and messages hold no row; 0 is a table that no fact reads.
        coalesce(named.said_action not in ('B', 'C', 'M'), true)
        and named.table_no is distinct from 0
    offset 0
),

-- An image is an array of {"name": ..., "value": ...} as text. Parsing all of it as JSON costs five times as much
-- as what is between the name and the next quote. Where that holds no backslash it is the value: then the next quote
-- ends the string, and the name with its colon and brace cannot be part of a value, where the quotes would be escaped.
plain as (
    select
        *,
        case table_no
            when 1 then array[
                split_part(split_part(old_image, '{"name":"service_id","value":"', 2), '"', 1),
                split_part(split_part(old_image, '{"name":"template_id","value":"', 2), '"', 1),
                split_part(split_part(old_image, '{"name":"notification_type","value":"', 2), '"', 1),
                split_part(split_part(old_image, '{"name":"notification_status","value":"', 2), '"', 1)
            ]
            when 2 then array[
                split_part(split_part(old_image, '{"name":"service_id","value":"', 2), '"', 1),
                split_part(split_part(old_image, '{"name":"template_id","value":"', 2), '"', 1),
                split_part(split_part(old_image, '{"name":"notification_type","value":"', 2), '"', 1),
                split_part(split_part(old_image, '{"name":"notification_status","value":"', 2), '"', 1)
            ]
        end as old_plain,
        case table_no
            when 1 then array[
                split_part(split_part(new_image, '{"name":"service_id","value":"', 2), '"', 1),
                split_part(split_part(new_image, '{"name":"template_id","value":"', 2), '"', 1),
                split_part(split_part(new_image, '{"name":"notification_type","value":"', 2), '"', 1),
                split_part(split_part(new_image, '{"name":"notification_status","value":"', 2), '"', 1)
            ]
            when 2 then array[
                split_part(split_part(new_image, '{"name":"service_id","value":"', 2), '"', 1),
                split_part(split_part(new_image, '{"name":"template_id","value":"', 2), '"', 1),
                split_part(split_part(new_image, '{"name":"notification_type","value":"', 2), '"', 1),
                split_part(split_part(new_image, '{"name":"notification_status","value":"', 2), '"', 1)
            ]
        end as new_plain
    from cut
    -- Without this the planner repeats each search wherever its result is used.
    offset 0
),

-- A plain string is itself, anything else a backslash and its JSON, and null what the image lacks. So two values are
-- equal where their texts are equal.
found as (
    select
        *,
        case table_no
            when 1 then array[
                case
                    when old_plain[1] <> '' and strpos(old_plain[1], '\') = 0 then old_plain[1]
                    else "cdc".image_value(old_image, 'service_id')
                end,
                case
                    when old_plain[2] <> '' and strpos(old_plain[2], '\') = 0 then old_plain[2]
                    else "cdc".image_value(old_image, 'template_id')
                end,
                case
                    when old_plain[3] <> '' and strpos(old_plain[3], '\') = 0 then old_plain[3]
                    else "cdc".image_value(old_image, 'notification_type')
                end,
                case
                    when old_plain[4] <> '' and strpos(old_plain[4], '\') = 0 then old_plain[4]
                    else "cdc".image_value(old_image, 'notification_status')
                end
            ]
            when 2 then array[
                case
                    when old_plain[1] <> '' and strpos(old_plain[1], '\') = 0 then old_plain[1]
                    else "cdc".image_value(old_image, 'service_id')
                end,
                case
                    when old_plain[2] <> '' and strpos(old_plain[2], '\') = 0 then old_plain[2]
                    else "cdc".image_value(old_image, 'template_id')
                end,
                case
                    when old_plain[3] <> '' and strpos(old_plain[3], '\') = 0 then old_plain[3]
                    else "cdc".image_value(old_image, 'notification_type')
                end,
                case
                    when old_plain[4] <> '' and strpos(old_plain[4], '\') = 0 then old_plain[4]
                    else "cdc".image_value(old_image, 'notification_status')
                end
            ]
        end as old_found,
        case table_no
            when 1 then array[
                case
                    when new_plain[1] <> '' and strpos(new_plain[1], '\') = 0 then new_plain[1]
                    else "cdc".image_value(new_image, 'service_id')
                end,
                case
                    when new_plain[2] <> '' and strpos(new_plain[2], '\') = 0 then new_plain[2]
                    else "cdc".image_value(new_image, 'template_id')
                end,
                case
                    when new_plain[3] <> '' and strpos(new_plain[3], '\') = 0 then new_plain[3]
                    else "cdc".image_value(new_image, 'notification_type')
                end,
                case
                    when new_plain[4] <> '' and strpos(new_plain[4], '\') = 0 then new_plain[4]
                    else "cdc".image_value(new_image, 'notification_status')
                end
            ]
            when 2 then array[
                case
                    when new_plain[1] <> '' and strpos(new_plain[1], '\') = 0 then new_plain[1]
                    else "cdc".image_value(new_image, 'service_id')
                end,
                case
                    when new_plain[2] <> '' and strpos(new_plain[2], '\') = 0 then new_plain[2]
                    else "cdc".image_value(new_image, 'template_id')
                end,
                case
                    when new_plain[3] <> '' and strpos(new_plain[3], '\') = 0 then new_plain[3]
                    else "cdc".image_value(new_image, 'notification_type')
                end,
                case
                    when new_plain[4] <> '' and strpos(new_plain[4], '\') = 0 then new_plain[4]
                    else "cdc".image_value(new_image, 'notification_status')
                end
            ]
        end as new_found
    from plain
    offset 0
),

valued as (
    select
        table_no,
        action,
        commit_lsn,
        ordinal,
        is_cancelled,
        coalesce(
            problem,
            case
                when action in ('U', 'D') and old_image is null then 'the replica identity carries no old row'
            end
        ) as problem,
        case table_no
            when 1 then array[
                old_found[1],
                old_found[2],
                old_found[3],
                old_found[4]
            ]
            when 2 then array[
                old_found[1],
                old_found[2],
                old_found[3],
                old_found[4]
            ]
        end as old_values,
        case table_no
            when 1 then array[
                coalesce(new_found[1], old_found[1]),
                coalesce(new_found[2], old_found[2]),
                coalesce(new_found[3], old_found[3]),
                coalesce(new_found[4], old_found[4])
            ]
            when 2 then array[
                coalesce(new_found[1], old_found[1]),
                coalesce(new_found[2], old_found[2]),
                coalesce(new_found[3], old_found[3]),
                coalesce(new_found[4], old_found[4])
            ]
        end as new_values
    from found
    offset 0
),

kept as (
    select
        *,
        $8
        or (table_no = 1 and action = 'D') as is_alone
    from valued
    -- An update that moves none of the values. A value that is absent is no value.
    where (action = 'U' and old_values = new_values and array_position(old_values, null) is null) is not true
)

select
    table_no,
    action,
    case when is_alone then commit_lsn end as commit_lsn,
    case when is_alone and ($8) then ordinal end as ordinal,
    is_cancelled,
    problem,
    old_values,
    new_values,
    count(*) as change_count,
    max(commit_lsn) as last_lsn,
    null::integer[] as missing
from kept
group by 1, 2, 3, 4, is_cancelled, problem, old_values, new_values

    ) as batch;
    return changes;
end
$reader$
