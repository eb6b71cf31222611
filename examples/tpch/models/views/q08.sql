select
    trade.o_year,
    sum(case when supplier_nation.n_name = 'BRAZIL' then trade.revenue else 0 end)
    / sum(trade.revenue) as mkt_share
from {{ ref('steel_trade') }} as trade
inner join {{ ref('nation') }} as supplier_nation on trade.s_nationkey = supplier_nation.n_nationkey
inner join {{ ref('nation') }} as customer_nation on trade.c_nationkey = customer_nation.n_nationkey
inner join {{ ref('region') }} as region on customer_nation.n_regionkey = region.r_regionkey
where region.r_name = 'AMERICA'
group by trade.o_year
order by trade.o_year
