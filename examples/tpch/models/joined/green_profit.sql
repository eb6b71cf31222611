{{ config(materialized='waltally') }}

select
    s.s_nationkey,
    extract(year from o.o_orderdate) as o_year,
    sum(l.revenue - ps.ps_supplycost * l.l_quantity) as profit
from {{ ref('lineitem') }} as l
inner join {{ ref('part') }} as p on p.p_partkey = l.l_partkey
inner join {{ ref('partsupp') }} as ps on ps.ps_partkey = l.l_partkey and ps.ps_suppkey = l.l_suppkey
inner join {{ ref('orders') }} as o on o.o_orderkey = l.l_orderkey
inner join {{ ref('supplier') }} as s on s.s_suppkey = l.l_suppkey
where p.p_name like '%green%'
group by 1, 2
