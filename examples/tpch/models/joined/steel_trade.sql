{{ config(materialized='waltally') }}

select s.s_nationkey, c.c_nationkey, extract(year from o.o_orderdate) as o_year, sum(l.revenue) as revenue
from {{ ref('lineitem') }} as l
inner join {{ ref('part') }} as p on p.p_partkey = l.l_partkey
inner join {{ ref('orders') }} as o on o.o_orderkey = l.l_orderkey
inner join {{ ref('customer') }} as c on c.c_custkey = o.o_custkey
inner join {{ ref('supplier') }} as s on s.s_suppkey = l.l_suppkey
where p.p_type = 'ECONOMY ANODIZED STEEL' and o.o_orderdate between '1995-01-01' and '1996-12-31'
group by 1, 2, 3
