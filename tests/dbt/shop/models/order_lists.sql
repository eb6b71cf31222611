{{ config(materialized='waltally') }}

select kind, last_day, count(*) as entry_count
from (
    select 'order' as kind, busy.last_day
    from {{ ref('current_orders') }} as orders
    inner join {{ ref('busy_channels') }} as busy on upper(busy.channel) = orders.channel
    union all
    select 'place', last_day from {{ ref('idle_places') }}
) as entries
group by 1, 2
