select supplier.s_name, supplier.s_address
from {{ ref('surplus_suppliers') }} as surplus
inner join {{ ref('supplier') }} as supplier on supplier.s_suppkey = surplus.ps_suppkey
inner join {{ ref('nation') }} as nation on nation.n_nationkey = supplier.s_nationkey
where nation.n_name = 'CANADA'
order by supplier.s_name
