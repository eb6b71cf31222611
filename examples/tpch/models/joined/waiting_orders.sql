{{ config(materialized='waltally') }}

select
    l.late_suppkey,
    sum(l.late_count) as numwait
from {{ ref('order_lines') }} as l
inner join {{ ref('orders') }} as o on l.l_orderkey = o.o_orderkey
where o.o_orderstatus = 'F' and l.late_supplier_count = 1 and l.supplier_count > 1
group by 1
