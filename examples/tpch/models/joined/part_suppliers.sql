{{ config(materialized='waltally') }}

select
    p.p_brand,
    p.p_type,
    p.p_size,
    ps.ps_suppkey,
    count(*) as part_count
from {{ ref('partsupp') }} as ps
inner join {{ ref('part') }} as p on ps.ps_partkey = p.p_partkey
left join {{ ref('supplier') }} as s on ps.ps_suppkey = s.s_suppkey
where
    p.p_brand <> 'Brand#45'
    and p.p_type not like 'MEDIUM POLISHED%'
    and p.p_size in (49, 14, 23, 45, 19, 3, 36, 9)
    and s.has_complaints is not true
group by 1, 2, 3, 4
