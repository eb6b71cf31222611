select
    nation.n_name,
    sum(sold.revenue) as revenue
from {{ ref('local_revenue') }} as sold
inner join {{ ref('nation') }} as nation on sold.s_nationkey = nation.n_nationkey
inner join {{ ref('region') }} as region on nation.n_regionkey = region.r_regionkey
where region.r_name = 'ASIA'
group by nation.n_name
order by revenue desc, nation.n_name asc
