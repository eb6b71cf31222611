{{ config(materialized='waltally') }}

select
    ps.ps_partkey,
    ps.ps_suppkey,
    ps.ps_supplycost,
    count(*) as offer_count
from {{ ref('partsupp') }} as ps
inner join {{ ref('part') }} as p on ps.ps_partkey = p.p_partkey
where p.p_size = 15 and p.p_type like '%BRASS'
group by 1, 2, 3
