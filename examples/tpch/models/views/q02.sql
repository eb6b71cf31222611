with offers as (
    select
        supplier.*,
        nation.n_name,
        offer.ps_partkey,
        offer.ps_supplycost,
        min(offer.ps_supplycost) over (partition by offer.ps_partkey) as least_supplycost
    from {{ ref('offers') }} as offer
    inner join {{ ref('supplier') }} as supplier on offer.ps_suppkey = supplier.s_suppkey
    inner join {{ ref('nation') }} as nation on supplier.s_nationkey = nation.n_nationkey
    inner join {{ ref('region') }} as region on nation.n_regionkey = region.r_regionkey
    where region.r_name = 'EUROPE'
)

select
    offers.s_acctbal,
    offers.s_name,
    offers.n_name,
    part.p_partkey,
    part.p_mfgr,
    offers.s_address,
    offers.s_phone,
    offers.s_comment
from offers
inner join {{ ref('part') }} as part on offers.ps_partkey = part.p_partkey
where offers.ps_supplycost = offers.least_supplycost
order by offers.s_acctbal desc, offers.n_name asc, offers.s_name asc, part.p_partkey asc
limit 100
