{{ config(materialized='waltally') }}

select
    coalesce(o.usual_count, 0) as c_count,
    count(*) as custdist
from {{ ref('customer') }} as c
left join {{ ref('customer_orders') }} as o on c.c_custkey = o.o_custkey
group by 1
