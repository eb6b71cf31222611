{{ config(
    materialized='waltally',
    timezone='Europe/London',
    ignore_deletes=['public.notification_history'],
    surrogate_key='id',
) }}

with notifications as (
    select
        service_id,
        template_id,
        notification_type,
        notification_status,
        created_at,
        key_type,
        true as is_live
    from {{ source('notify', 'notifications') }}
    union all
    select
        service_id,
        template_id,
        notification_type,
        notification_status,
        created_at,
        key_type,
        false as is_live
    from {{ source('notify', 'notification_history') }}
)

select
    (created_at at time zone 'UTC')::date as bst_date,
    service_id,
    template_id,
    notification_type,
    notification_status,
    count(*) as count,
    count(*) filter (where is_live) as live_count,
    count(*) filter (where not is_live) as archived_count
from notifications
where key_type <> 'test'
group by 1, 2, 3, 4, 5
