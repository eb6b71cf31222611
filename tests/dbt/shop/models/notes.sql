{{ config(materialized='waltally') }}

select note::integer % 10 as digit, count(*) as order_count
from {{ source('shop', 'orders') }}
group by 1
