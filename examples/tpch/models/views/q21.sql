select supplier.s_name, sum(waiting.numwait)::bigint as numwait
from {{ ref('waiting_orders') }} as waiting
inner join {{ ref('supplier') }} as supplier on supplier.s_suppkey = waiting.late_suppkey
inner join {{ ref('nation') }} as nation on nation.n_nationkey = supplier.s_nationkey
where nation.n_name = 'SAUDI ARABIA'
group by supplier.s_name
order by numwait desc, supplier.s_name
limit 100
