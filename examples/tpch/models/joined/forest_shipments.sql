{{ config(materialized='waltally') }}

select
    l.l_partkey,
    l.l_suppkey,
    sum(l.l_quantity) as quantity
from {{ ref('lineitem') }} as l
inner join {{ ref('part') }} as p on l.l_partkey = p.p_partkey
where p.p_name like 'forest%' and l.l_shipdate >= '1994-01-01' and l.l_shipdate < '1995-01-01'
group by 1, 2
