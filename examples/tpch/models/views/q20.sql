select
    supplier.s_name,
    supplier.s_address
from {{ ref('surplus_suppliers') }} as surplus
inner join {{ ref('supplier') }} as supplier on surplus.ps_suppkey = supplier.s_suppkey
inner join {{ ref('nation') }} as nation on supplier.s_nationkey = nation.n_nationkey
where nation.n_name = 'CANADA'
order by supplier.s_name
