select
    customer.c_name,
    customer.c_custkey,
    orders.o_orderkey,
    orders.o_orderdate,
    orders.o_totalprice,
    sold.quantity as sum
from {{ ref('large_orders') }} as sold
inner join {{ ref('orders') }} as orders on sold.l_orderkey = orders.o_orderkey
inner join {{ ref('customer') }} as customer on orders.o_custkey = customer.c_custkey
order by orders.o_totalprice desc, orders.o_orderdate asc, orders.o_orderkey asc
limit 100
