{{ config(
    materialized='waltally',
    enabled=var('notify_models', project_name == 'waltally'),
    ignore_deletes=['public.notification_history'],
    surrogate_key='id',
    indexes=[
        {'columns': ['service_id', 'notification_type', 'notification_status']},
        {'columns': ['template_id', 'notification_type', 'notification_status']},
        {'columns': ['service_id', 'template_id']},
    ],
) }}

with notifications as (
    select
        service_id,
        template_id,
        notification_type,
        notification_status,
        true as is_live
    from {{ source('notify', 'notifications') }}
    union all
    select
        service_id,
        template_id,
        notification_type,
        notification_status,
        false as is_live
    from {{ source('notify', 'notification_history') }}
)

select
    service_id,
    template_id,
    notification_type,
    notification_status,
    count(*) as count,
    count(*) filter (where is_live) as live_count,
    count(*) filter (where not is_live) as archived_count
from notifications
group by service_id, template_id, notification_type, notification_status
