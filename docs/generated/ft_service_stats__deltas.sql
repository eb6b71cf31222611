-- Compiled by dbt and installed in the database; `make generated` writes this file.
CREATE OR REPLACE FUNCTION analytics.ft_service_stats__deltas(
    slot text,
    changes cdc.change[],
    table_nos integer[],
    places integer[]
)
 RETURNS TABLE(
    part text,
    action text,
    commit_lsn pg_lsn,
    ordinal bigint,
    rejected_reason text,
    is_ignored boolean,
    change_count bigint,
    last_lsn pg_lsn,
    d0 uuid,
    d1 uuid,
    d2 text,
    d3 text,
    sign integer,
    left_out bigint
)
 LANGUAGE sql
 STABLE
AS $function$
with valued as (
    select
        parts.part,
        change."action",
        change."commit_lsn",
        change."ordinal",
        change."is_cancelled",
        change."problem",
        change."change_count",
        change."last_lsn",
        change.old_values[($4)[parts.place][1]] as old_v0,
        change.old_values[($4)[parts.place][2]] as old_v1,
        change.old_values[($4)[parts.place][3]] as old_v2,
        change.old_values[($4)[parts.place][4]] as old_v3,
        change.new_values[($4)[parts.place][1]] as new_v0,
        change.new_values[($4)[parts.place][2]] as new_v1,
        change.new_values[($4)[parts.place][3]] as new_v2,
        change.new_values[($4)[parts.place][4]] as new_v3
    from unnest($2) as change
    left join (
        values
        (1, 'live'),
        (2, 'archived')
    ) as parts (place, part) on change.table_no = ($3)[parts.place]
    where change.table_no is null or parts.part is not null

),

moved as (
    select
        part, action, commit_lsn, ordinal,
        is_cancelled,
        problem,
        old_v0, old_v1, old_v2, old_v3,
        new_v0, new_v1, new_v2, new_v3,
        coalesce(part in ('archived') and action = 'D', false) as is_ignored,
        sum(change_count)::bigint as change_count,
        max(last_lsn) as last_lsn
    from valued
    where (action = 'U' and (old_v0, old_v1, old_v2, old_v3) = (new_v0, new_v1, new_v2, new_v3)) is not true
    group by
        part, action, commit_lsn, ordinal,
        is_cancelled,
        problem,
        old_v0, old_v1, old_v2, old_v3,
        new_v0, new_v1, new_v2, new_v3
),

imaged as (
    select
        *,
        coalesce(
        action in ('U', 'D'), false) as meets_old,
        coalesce(
        action in ('U', 'D')
            and old_v0 is distinct from '\null'
            and old_v1 is distinct from '\null'
            and old_v2 is distinct from '\null'
            and old_v3 is distinct from '\null',
            false
        ) as has_old,
        coalesce(
        action in ('I', 'U'), false) as meets_new,
        coalesce(
        action in ('I', 'U')
            and new_v0 is distinct from '\null'
            and new_v1 is distinct from '\null'
            and new_v2 is distinct from '\null'
            and new_v3 is distinct from '\null',
            false
        ) as has_new
    from moved
),

judged as (
    select
        *,
        case
            when problem is not null then problem
            when has_new and num_nulls(variadic array[new_v0, new_v1, new_v2, new_v3]) > 0
                then 'the row has no column ' || array_to_string(array[
                    case when new_v0 is null then 'service_id' end,
                    case when new_v1 is null then 'template_id' end,
                    case when new_v2 is null then 'notification_type' end,
                    case when new_v3 is null then 'notification_status' end
                ], ', ')
            when has_old and num_nulls(variadic array[old_v0, old_v1, old_v2, old_v3]) > 0
                then 'the replica identity does not carry the old ' || array_to_string(array[
                    case when old_v0 is null then 'service_id' end,
                    case when old_v1 is null then 'template_id' end,
                    case when old_v2 is null then 'notification_type' end,
                    case when old_v3 is null then 'notification_status' end
                ], ', ')
        end as unknown_reason,
        case
            when has_new and new_v0 !~* '^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\\null)$'
                then 'the value of service_id is not a uuid'
            when has_new and new_v1 !~* '^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\\null)$'
                then 'the value of template_id is not a uuid'
            when has_new and octet_length(case when left(new_v2, 1) = '\'
                then substr(new_v2, 2)::jsonb #>> '{}' else new_v2 end) > 1000
                then 'the value of notification_type is longer than 1000 bytes'
            when has_new and octet_length(case when left(new_v3, 1) = '\'
                then substr(new_v3, 2)::jsonb #>> '{}' else new_v3 end) > 1000
                then 'the value of notification_status is longer than 1000 bytes'
            when has_new and coalesce(octet_length(case when left(new_v2, 1) = '\'
                then substr(new_v2, 2)::jsonb #>> '{}' else new_v2 end), 0)
                + coalesce(octet_length(case when left(new_v3, 1) = '\'
                then substr(new_v3, 2)::jsonb #>> '{}' else new_v3 end), 0) > 1800
                then 'the values of notification_type, notification_status together are longer than 1800 bytes'
        end as new_reason,
        case
            when has_old and old_v0 !~* '^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\\null)$'
                then 'the value of service_id is not a uuid'
            when has_old and old_v1 !~* '^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\\null)$'
                then 'the value of template_id is not a uuid'
            when has_old and octet_length(case when left(old_v2, 1) = '\'
                then substr(old_v2, 2)::jsonb #>> '{}' else old_v2 end) > 1000
                then 'the value of notification_type is longer than 1000 bytes'
            when has_old and octet_length(case when left(old_v3, 1) = '\'
                then substr(old_v3, 2)::jsonb #>> '{}' else old_v3 end) > 1000
                then 'the value of notification_status is longer than 1000 bytes'
            when has_old and coalesce(octet_length(case when left(old_v2, 1) = '\'
                then substr(old_v2, 2)::jsonb #>> '{}' else old_v2 end), 0)
                + coalesce(octet_length(case when left(old_v3, 1) = '\'
                then substr(old_v3, 2)::jsonb #>> '{}' else old_v3 end), 0) > 1800
                then 'the values of notification_type, notification_status together are longer than 1800 bytes'
        end as old_reason
    from imaged
    offset 0
),

-- A join with constants. A lateral join over wide rows would be memoized, with a hash for each row.
images as (
    select
        judged."part",
        judged."action",
        judged."commit_lsn",
        judged."ordinal",
        judged."is_ignored",
        judged."change_count",
        judged."last_lsn",
        case
            when side.sign = 1 and judged.has_new then case when left(judged.new_v0, 1) = '\'
                then substr(judged.new_v0, 2)::jsonb #>> '{}' else judged.new_v0 end
            when side.sign = -1 and judged.has_old then case when left(judged.old_v0, 1) = '\'
                then substr(judged.old_v0, 2)::jsonb #>> '{}' else judged.old_v0 end
        end as v0,
        case
            when side.sign = 1 and judged.has_new then case when left(judged.new_v1, 1) = '\'
                then substr(judged.new_v1, 2)::jsonb #>> '{}' else judged.new_v1 end
            when side.sign = -1 and judged.has_old then case when left(judged.old_v1, 1) = '\'
                then substr(judged.old_v1, 2)::jsonb #>> '{}' else judged.old_v1 end
        end as v1,
        case
            when side.sign = 1 and judged.has_new then case when left(judged.new_v2, 1) = '\'
                then substr(judged.new_v2, 2)::jsonb #>> '{}' else judged.new_v2 end
            when side.sign = -1 and judged.has_old then case when left(judged.old_v2, 1) = '\'
                then substr(judged.old_v2, 2)::jsonb #>> '{}' else judged.old_v2 end
        end as v2,
        case
            when side.sign = 1 and judged.has_new then case when left(judged.new_v3, 1) = '\'
                then substr(judged.new_v3, 2)::jsonb #>> '{}' else judged.new_v3 end
            when side.sign = -1 and judged.has_old then case when left(judged.old_v3, 1) = '\'
                then substr(judged.old_v3, 2)::jsonb #>> '{}' else judged.old_v3 end
        end as v3,
        case when side.sign is null then coalesce(judged.unknown_reason, judged.new_reason) end as rejected_reason,
        case when case side.sign when 1 then judged.has_new else judged.has_old end then side.sign end as sign,
        case
            when case side.sign when 1 then judged.has_new else judged.has_old end or judged.is_ignored then 0
            else coalesce(side.sign * judged.change_count, 0)
        end as left_out
    from judged
    cross join (values (1), (-1), (null)) as side (sign)
    where
        case
            when side.sign is null
                then coalesce(judged.unknown_reason, judged.new_reason) is not null
                or judged.action = 'T' and not judged.is_cancelled
            when judged.unknown_reason is not null or judged.is_cancelled then false
            when side.sign = 1 then judged.meets_new and judged.new_reason is null
            else judged.meets_old and judged.old_reason is null and (judged.has_old or not judged.is_ignored)
        end
    -- Without this a filter on a dimension, with its cast, could run before the filter above.
    offset 0
)

select
    part, action, commit_lsn, ordinal,
    rejected_reason,
    is_ignored,
    change_count,
    last_lsn,
    (v0)::uuid as d0,
    (v1)::uuid as d1,
    (v2)::text as d2,
    (v3)::text as d3,
    sign,
    left_out
from images

$function$
