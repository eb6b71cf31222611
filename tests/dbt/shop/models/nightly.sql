{{ config(materialized='waltally') }}

select channel, count(*) as order_count from {{ source('shop', 'orders') }} group by 1
