{{ config(materialized='waltally') }}

with sales as (
    select * from {{ ref('sales') }}
),

totals as (
    select channel, order_count as all_count from {{ ref('both') }}
)

select sales.day, totals.all_count > 40 as is_large, sum(sales.order_count) as order_count, avg(sales.amount) as average
from sales
inner join totals on totals.channel = sales.channel
group by 1, 2
