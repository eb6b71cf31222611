select
    customer.c_name,
    customer.c_custkey,
    orders.o_orderkey,
    orders.o_orderdate,
    orders.o_totalprice,
    sold.quantity as sum
from {{ ref('large_orders') }} as sold
inner join {{ ref('orders') }} as orders on orders.o_orderkey = sold.l_orderkey
inner join {{ ref('customer') }} as customer on customer.c_custkey = orders.o_custkey
order by orders.o_totalprice desc, orders.o_orderdate, orders.o_orderkey
limit 100
