{{ config(materialized='waltally') }}

select
    s.s_nationkey,
    sum(l.revenue) as revenue
from {{ ref('lineitem') }} as l
inner join {{ ref('orders') }} as o on l.l_orderkey = o.o_orderkey
inner join {{ ref('customer') }} as c on o.o_custkey = c.c_custkey
inner join {{ ref('supplier') }} as s on l.l_suppkey = s.s_suppkey and c.c_nationkey = s.s_nationkey
where o.o_orderdate >= '1994-01-01' and o.o_orderdate < '1995-01-01'
group by 1
