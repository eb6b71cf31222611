select
    p_brand,
    p_type,
    p_size,
    supplier_cnt
from {{ ref('supplier_counts') }}
order by supplier_cnt desc, p_brand asc, p_type asc, p_size asc
