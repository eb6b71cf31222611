-- Compiled by dbt and installed in the database; `make generated` writes this file.
CREATE OR REPLACE FUNCTION analytics.ft_service_stats__deltas(
    changes cdc.change[],
    table_nos integer[],
    places integer[]
)
 RETURNS TABLE(
    waltally_source_no integer,
    waltally_archived_lsn pg_lsn,
    service_id uuid,
    template_id uuid,
    notification_type text,
    notification_status text,
    count numeric,
    live_count numeric,
    archived_count numeric
)
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET row_security TO 'off'
 SET jit TO 'off'
 SET enable_sort TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET array_nulls TO 'on'
 SET lock_timeout TO '100ms'
 SET "TimeZone" TO 'UTC'
AS $function$
#variable_conflict use_column
begin
    return query
    with images_1 as materialized (
        select
            image.sign as waltally_sign,
            image.archived_lsn as waltally_archived_lsn,
            image.change_count as waltally_count,
            image.v[($3)[1][1]] as notification_status,
            image.v[($3)[1][2]] as notification_type,
            image.v[($3)[1][3]]::uuid as service_id,
            image.v[($3)[1][4]]::uuid as template_id
        from (
            select
                side.sign,
                case change.action when 'D' then change.commit_lsn end as archived_lsn,
                change.change_count,
                case side.sign when 1 then change.new_values else change.old_values end as v
            from unnest($1) as change
            cross join (values (1), (-1)) as side (sign)
            where
                change.table_no = ($2)[1]
                and change.action in ('U', case side.sign when 1 then 'I' else 'D' end)
            offset 0
        ) as image
    ),

    images_2 as materialized (
        select
            image.sign as waltally_sign,
            image.archived_lsn as waltally_archived_lsn,
            image.change_count as waltally_count,
            image.v[($3)[2][1]] as notification_status,
            image.v[($3)[2][2]] as notification_type,
            image.v[($3)[2][3]]::uuid as service_id,
            image.v[($3)[2][4]]::uuid as template_id
        from (
            select
                side.sign,
                null::pg_lsn as archived_lsn,
                change.change_count,
                case side.sign when 1 then change.new_values else change.old_values end as v
            from unnest($1) as change
            cross join (values (1), (-1)) as side (sign)
            where
                change.table_no = ($2)[2]
                and change.action in ('U', case side.sign when 1 then 'I' else 'D' end)
            offset 0
        ) as image
    )

    select
        units.source_no,
        units.archived_lsn,
        query.service_id, query.template_id, query.notification_type, query.notification_status,
        coalesce(sum(query.count * units.sign * units.unit), 0),
        coalesce(sum(query.live_count * units.sign * units.unit), 0),
        coalesce(sum(query.archived_count * units.sign * units.unit), 0)
    from (
        select distinct
            weights.source_no,
            weights.archived_lsn,
            weights.sign,
            1::bigint << digit as unit
        from (select 1 as source_no, waltally_archived_lsn as archived_lsn, waltally_sign as sign, waltally_count as change_count from images_1 union select 2 as source_no, waltally_archived_lsn as archived_lsn, waltally_sign as sign, waltally_count as change_count from images_2) as weights
        cross join generate_series(0, 40) as digit
        where weights.change_count >> digit & 1 = 1
    ) as units
    cross join lateral (
        with waltally_source_1 as (
            select * from images_1
            where
                units.source_no = 1
                and waltally_sign = units.sign
                and waltally_archived_lsn is not distinct from units.archived_lsn
                and waltally_count & units.unit > 0
        ),
        waltally_source_2 as (
            select * from images_2
            where
                units.source_no = 2
                and waltally_sign = units.sign
                and waltally_archived_lsn is not distinct from units.archived_lsn
                and waltally_count & units.unit > 0
        )

select
    query.service_id,
    query.template_id,
    case when octet_length(convert_to(query.notification_type::text, 'UTF8')) <= 1000 then query.notification_type::text else left(query.notification_type::text, 241) || '-' || md5(convert_to(query.notification_type::text, 'UTF8')) end as notification_type,
    case when octet_length(convert_to(query.notification_status::text, 'UTF8')) <= 1000 then query.notification_status::text else left(query.notification_status::text, 241) || '-' || md5(convert_to(query.notification_status::text, 'UTF8')) end as notification_status,
    query.count,
    query.live_count,
    query.archived_count
from (
 WITH notifications AS (
         SELECT notifications_1.service_id,
            notifications_1.template_id,
            notifications_1.notification_type,
            notifications_1.notification_status,
            true AS is_live
           FROM waltally_source_2 notifications_1
        UNION ALL
         SELECT notification_history.service_id,
            notification_history.template_id,
            notification_history.notification_type,
            notification_history.notification_status,
            false AS is_live
           FROM waltally_source_1 notification_history
        )
 SELECT
    notifications.service_id as service_id,
    notifications.template_id as template_id,
    notifications.notification_type as notification_type,
    notifications.notification_status as notification_status,
    count(*) as count,
    count(*) FILTER (WHERE notifications.is_live) as live_count,
    count(*) FILTER (WHERE (NOT notifications.is_live)) as archived_count
FROM notifications
  GROUP BY notifications.service_id, notifications.template_id, notifications.notification_type, notifications.notification_status
) as query
    ) as query
    group by units.source_no, units.archived_lsn, query.service_id, query.template_id, query.notification_type, query.notification_status;
end
$function$
