{{ config(materialized='waltally') }}

select service_id, key_type, count(*) as count
from {{ source('notify', 'notifications') }}
group by 1, 2
