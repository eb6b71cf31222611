{{ config(materialized='waltally') }}

select
    service_id,
    sum(count)::bigint as count,
    sum(live_count)::bigint as live_count,
    sum(archived_count)::bigint as archived_count,
    count(distinct template_id) filter (where live_count > 0) as template_count
from {{ ref('waltally', 'ft_service_stats') }}
group by service_id
