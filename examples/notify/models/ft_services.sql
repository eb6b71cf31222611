with stats as (
    select * from {{ ref('waltally', 'ft_service_stats') }}
),

services as (
    select * from {{ ref('services') }}
)

select
    stats.service_id,
    services.name as service_name,
    sum(stats.count)::bigint as count,
    sum(stats.live_count)::bigint as live_count,
    sum(stats.archived_count)::bigint as archived_count,
    count(distinct stats.template_id) filter (where stats.live_count > 0) as template_count
from stats
inner join services on stats.service_id = services.id
group by stats.service_id, services.name
