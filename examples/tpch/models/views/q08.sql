select
    trade.o_year,
    sum(case when supplier_nation.n_name = 'BRAZIL' then trade.revenue else 0 end) / sum(trade.revenue) as mkt_share
from {{ ref('steel_trade') }} as trade
inner join {{ ref('nation') }} as supplier_nation on supplier_nation.n_nationkey = trade.s_nationkey
inner join {{ ref('nation') }} as customer_nation on customer_nation.n_nationkey = trade.c_nationkey
inner join {{ ref('region') }} as region on region.r_regionkey = customer_nation.n_regionkey
where region.r_name = 'AMERICA'
group by trade.o_year
order by trade.o_year
