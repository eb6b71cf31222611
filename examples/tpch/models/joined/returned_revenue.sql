{{ config(materialized='waltally') }}

select
    o.o_custkey,
    sum(l.returned_revenue) as revenue
from {{ ref('order_lines') }} as l
inner join {{ ref('orders') }} as o on l.l_orderkey = o.o_orderkey
where
    o.o_orderdate >= '1993-10-01'
    and o.o_orderdate < '1994-01-01'
    and l.returned_revenue is not null
group by 1
