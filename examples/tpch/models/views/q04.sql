select
    o_orderpriority,
    order_count
from {{ ref('late_orders') }}
order by o_orderpriority
