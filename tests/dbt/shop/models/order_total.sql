{{ config(materialized='waltally') }}

select count(*) as order_count, sum(amount - discount) as net from {{ source('shop', 'orders') }}
