{{ config(materialized='waltally') }}

select
    o.o_orderpriority,
    count(*) as order_count
from {{ ref('orders') }} as o
inner join {{ ref('order_lines') }} as l on o.o_orderkey = l.l_orderkey
where o.o_orderdate >= '1993-07-01' and o.o_orderdate < '1993-10-01' and l.late_count > 0
group by 1
