{{ config(materialized='waltally') }}

select
    s.s_nationkey,
    extract(year from o.o_orderdate) as o_year,
    sum(l.revenue - ps.ps_supplycost * l.l_quantity) as profit
from {{ ref('lineitem') }} as l
inner join {{ ref('part') }} as p on l.l_partkey = p.p_partkey
inner join
    {{ ref('partsupp') }} as ps
    on l.l_partkey = ps.ps_partkey and l.l_suppkey = ps.ps_suppkey
inner join {{ ref('orders') }} as o on l.l_orderkey = o.o_orderkey
inner join {{ ref('supplier') }} as s on l.l_suppkey = s.s_suppkey
where p.p_name like '%green%'
group by 1, 2
