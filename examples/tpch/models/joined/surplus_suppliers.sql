{{ config(materialized='waltally') }}

select
    ps.ps_suppkey,
    count(*) as part_count
from {{ ref('partsupp') }} as ps
inner join {{ ref('forest_shipments') }} as shipped
    on ps.ps_partkey = shipped.l_partkey and ps.ps_suppkey = shipped.l_suppkey
where ps.ps_availqty > 0.5 * shipped.quantity
group by 1
