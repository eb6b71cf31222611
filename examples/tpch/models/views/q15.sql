select supplier.s_suppkey, supplier.s_name, supplier.s_address, supplier.s_phone, best.revenue as total_revenue
from {{ ref('supplier_revenue') }} as best
inner join {{ ref('supplier') }} as supplier on supplier.s_suppkey = best.l_suppkey
where best.revenue = (select max(revenue) from {{ ref('supplier_revenue') }})
order by supplier.s_suppkey
