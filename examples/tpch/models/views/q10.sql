select
    customer.c_custkey,
    customer.c_name,
    returned.revenue,
    customer.c_acctbal,
    nation.n_name,
    customer.c_address,
    customer.c_phone,
    customer.c_comment
from {{ ref('returned_revenue') }} as returned
inner join {{ ref('customer') }} as customer on returned.o_custkey = customer.c_custkey
inner join {{ ref('nation') }} as nation on customer.c_nationkey = nation.n_nationkey
order by returned.revenue desc, customer.c_custkey asc
limit 20
