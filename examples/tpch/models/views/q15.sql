select
    supplier.s_suppkey,
    supplier.s_name,
    supplier.s_address,
    supplier.s_phone,
    best.revenue as total_revenue
from {{ ref('supplier_revenue') }} as best
inner join {{ ref('supplier') }} as supplier on best.l_suppkey = supplier.s_suppkey
where
    best.revenue = (
        select max(other.revenue) from {{ ref('supplier_revenue') }} as other
    )
order by supplier.s_suppkey
