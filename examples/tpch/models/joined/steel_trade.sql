{{ config(materialized='waltally') }}

select
    s.s_nationkey,
    c.c_nationkey,
    extract(year from o.o_orderdate) as o_year,
    sum(l.revenue) as revenue
from {{ ref('lineitem') }} as l
inner join {{ ref('part') }} as p on l.l_partkey = p.p_partkey
inner join {{ ref('orders') }} as o on l.l_orderkey = o.o_orderkey
inner join {{ ref('customer') }} as c on o.o_custkey = c.c_custkey
inner join {{ ref('supplier') }} as s on l.l_suppkey = s.s_suppkey
where p.p_type = 'ECONOMY ANODIZED STEEL' and o.o_orderdate between '1995-01-01' and '1996-12-31'
group by 1, 2, 3
