select
    l_orderkey,
    revenue,
    o_orderdate,
    o_shippriority
from {{ ref('unshipped_orders') }}
order by revenue desc, o_orderdate asc, l_orderkey asc
limit 10
