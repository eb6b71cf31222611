{{ config(materialized='waltally') }}

select
    sum(l.revenue) as revenue,
    sum(l.revenue) filter (where p.p_type like 'PROMO%') as promo_revenue
from {{ ref('lineitem') }} as l
inner join {{ ref('part') }} as p on l.l_partkey = p.p_partkey
where l.l_shipdate >= '1995-09-01' and l.l_shipdate < '1995-10-01'
