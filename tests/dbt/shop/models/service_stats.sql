{{ config(
    materialized='waltally',
    surrogate_key='id',
    ignore_deletes=['public.notification_history'],
) }}

select
    service_id,
    template_id,
    notification_type,
    notification_status,
    count(*) as count,
    count(*) filter (where is_live) as live_count,
    count(*) filter (where not is_live) as archived_count
from (
    select service_id, template_id, notification_type, notification_status, key_type, true as is_live
    from {{ source('shop', 'notifications') }}
    union all
    select service_id, template_id, notification_type, notification_status, key_type, false
    from {{ source('shop', 'notification_history') }}
) as notifications
where key_type <> 'test'
group by 1, 2, 3, 4
