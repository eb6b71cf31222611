{{ config(materialized='waltally') }}

select
    p_brand,
    p_type,
    p_size,
    count(distinct ps_suppkey) as supplier_cnt
from {{ ref('part_suppliers') }}
group by 1, 2, 3
