{{ config(materialized='waltally') }}

select
    o_custkey,
    count(*) as order_count,
    count(*) filter (where o_comment not like '%special%requests%') as usual_count
from {{ source('tpch', 'orders') }}
group by 1
