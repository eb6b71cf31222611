{{ config(materialized='waltally') }}

select s.s_nationkey, sum(l.revenue) as revenue
from {{ ref('lineitem') }} as l
inner join {{ ref('orders') }} as o on o.o_orderkey = l.l_orderkey
inner join {{ ref('customer') }} as c on c.c_custkey = o.o_custkey
inner join {{ ref('supplier') }} as s on s.s_suppkey = l.l_suppkey and s.s_nationkey = c.c_nationkey
where o.o_orderdate >= '1994-01-01' and o.o_orderdate < '1995-01-01'
group by 1
