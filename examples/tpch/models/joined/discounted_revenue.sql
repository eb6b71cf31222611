{{ config(materialized='waltally') }}

select sum(l.revenue) as revenue
from {{ ref('lineitem') }} as l
inner join {{ ref('part') }} as p on l.l_partkey = p.p_partkey
where
    l.is_handed_over
    and (
        p.p_brand = 'Brand#12'
        and p.p_container in ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
        and l.l_quantity between 1 and 11
        and p.p_size between 1 and 5
        or p.p_brand = 'Brand#23'
        and p.p_container in ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
        and l.l_quantity between 10 and 20
        and p.p_size between 1 and 10
        or p.p_brand = 'Brand#34'
        and p.p_container in ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
        and l.l_quantity between 20 and 30
        and p.p_size between 1 and 15
    )
