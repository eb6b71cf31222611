select
    supplier_nation.n_name as supp_nation,
    customer_nation.n_name as cust_nation,
    trade.l_year,
    sum(trade.revenue) as revenue
from {{ ref('trade') }} as trade
inner join {{ ref('nation') }} as supplier_nation on trade.s_nationkey = supplier_nation.n_nationkey
inner join {{ ref('nation') }} as customer_nation on trade.c_nationkey = customer_nation.n_nationkey
where
    (supplier_nation.n_name = 'FRANCE' and customer_nation.n_name = 'GERMANY')
    or (supplier_nation.n_name = 'GERMANY' and customer_nation.n_name = 'FRANCE')
group by 1, 2, 3
order by 1, 2, 3
