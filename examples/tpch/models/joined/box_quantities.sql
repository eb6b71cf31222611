{{ config(materialized='waltally') }}

select
    l.l_partkey,
    l.l_quantity,
    count(*) as line_count,
    sum(l.l_extendedprice) as extendedprice
from {{ ref('lineitem') }} as l
inner join {{ ref('part') }} as p on l.l_partkey = p.p_partkey
where p.p_brand = 'Brand#23' and p.p_container = 'MED BOX'
group by 1, 2
