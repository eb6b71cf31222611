{{ config(materialized='waltally') }}

select ps.ps_suppkey, count(*) as part_count
from {{ ref('partsupp') }} as ps
inner join {{ ref('forest_shipments') }} as shipped
    on shipped.l_partkey = ps.ps_partkey and shipped.l_suppkey = ps.ps_suppkey
where ps.ps_availqty > 0.5 * shipped.quantity
group by 1
