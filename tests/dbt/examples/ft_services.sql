{{ config(materialized='waltally', ignore_deletes=['public.notification_history']) }}

with notifications as (
    select service_id, 1 as live from {{ source('notify', 'notifications') }}
    union all
    select service_id, 0 as live from {{ source('notify', 'notification_history') }}
)

select
    service_id,
    sum(live) as live_count,
    count(*) as count
from notifications
group by 1
