{{ config(materialized='waltally') }}

select
    l_orderkey,
    sum(l_quantity) as quantity,
    sum(revenue) filter (where l_shipdate > '1995-03-15') as unshipped_revenue,
    sum(revenue) filter (where is_returned) as returned_revenue,
    count(*) filter (where is_late) as late_count,
    count(distinct l_suppkey) as supplier_count,
    count(distinct l_suppkey) filter (where is_late) as late_supplier_count,
    min(l_suppkey) filter (where is_late) as late_suppkey
from {{ ref('lineitem') }}
group by 1
