{{ config(materialized='waltally') }}

select
    channel,
    count(distinct day) as day_count,
    max(day) as last_day,
    min(amount) filter (where order_count > 1) as least,
    percentile_disc(0.5) within group (order by order_count) as usual
from {{ ref('sales') }}
group by channel
