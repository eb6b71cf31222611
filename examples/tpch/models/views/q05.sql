select nation.n_name, sum(local.revenue) as revenue
from {{ ref('local_revenue') }} as local
inner join {{ ref('nation') }} as nation on nation.n_nationkey = local.s_nationkey
inner join {{ ref('region') }} as region on region.r_regionkey = nation.n_regionkey
where region.r_name = 'ASIA'
group by nation.n_name
order by revenue desc, nation.n_name
