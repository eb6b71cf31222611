{{ config(materialized='waltally') }}

select
    l.l_orderkey,
    o.o_orderdate,
    o.o_shippriority,
    sum(l.unshipped_revenue) as revenue
from {{ ref('order_lines') }} as l
inner join {{ ref('orders') }} as o on l.l_orderkey = o.o_orderkey
inner join {{ ref('customer') }} as c on o.o_custkey = c.c_custkey
where
    c.c_mktsegment = 'BUILDING' and o.o_orderdate < '1995-03-15' and l.unshipped_revenue is not null
group by 1, 2, 3
