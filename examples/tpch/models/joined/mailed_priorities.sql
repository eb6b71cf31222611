{{ config(materialized='waltally') }}

select
    l.l_shipmode,
    sum(l.line_count) as line_count,
    sum(l.line_count) filter (where o.o_orderpriority in ('1-URGENT', '2-HIGH')) as high_line_count
from {{ ref('mailed_lines') }} as l
inner join {{ ref('orders') }} as o on l.l_orderkey = o.o_orderkey
group by 1
