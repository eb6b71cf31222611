{{ config(materialized='kept_view', enabled=var('notify_facts', project_name == 'waltally')) }}

with facts as (
    select
        service_id,
        notification_type,
        notification_status,
        count
    from {{ ref('ft_service_stats') }}
),

totals as (
    select
        service_id,
        notification_type,
        sum(count)::bigint as count,
        coalesce(sum(count) filter (
            where notification_status <> 'cancelled'
        ), 0)::bigint as requested,
        coalesce(sum(count) filter (
            where notification_status in ('delivered', 'sent')
        ), 0)::bigint as delivered,
        coalesce(sum(count) filter (
            where notification_status in (
                'failed',
                'permanent-failure',
                'technical-failure',
                'temporary-failure',
                'validation-failed',
                'virus-scan-failed'
            )
        ), 0)::bigint as failed
    from facts
    group by service_id, notification_type
)

select * from totals
