{{ config(materialized='waltally', ignore_deletes=['public.notification_history']) }}

select
    service_id,
    count(*) as count,
    count(*) filter (where is_live) as live_count,
    count(*) filter (where not is_live) as archived_count
from (
    select service_id, true as is_live from {{ source('notify', 'notifications') }}
    union all
    select service_id, false from {{ source('notify', 'notification_history') }}
) as notifications
group by 1
