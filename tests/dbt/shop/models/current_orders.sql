{{ config(materialized='waltally') }}

select id, upper(channel) as channel, amount - discount as net, status
from {{ source('shop', 'orders') }}
where channel is not null
