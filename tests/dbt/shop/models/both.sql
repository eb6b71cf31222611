{{ config(materialized='waltally') }}

select channel, count(*) as order_count, sum(amount) as amount
from (
    select channel, amount from {{ source('shop', 'orders') }}
    union all
    select channel, amount from {{ source('shop', 'old_orders') }}
) as orders
group by channel
