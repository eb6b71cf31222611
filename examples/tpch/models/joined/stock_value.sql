{{ config(materialized='waltally') }}

select
    s.s_nationkey,
    ps.ps_partkey,
    sum(ps.ps_supplycost * ps.ps_availqty) as stock_value
from {{ ref('partsupp') }} as ps
inner join {{ ref('supplier') }} as s on ps.ps_suppkey = s.s_suppkey
group by 1, 2
