select
    supplier.s_name,
    sum(waiting.numwait)::bigint as numwait
from {{ ref('waiting_orders') }} as waiting
inner join {{ ref('supplier') }} as supplier on waiting.late_suppkey = supplier.s_suppkey
inner join {{ ref('nation') }} as nation on supplier.s_nationkey = nation.n_nationkey
where nation.n_name = 'SAUDI ARABIA'
group by supplier.s_name
order by numwait desc, supplier.s_name asc
limit 100
