select
    c_count,
    custdist
from {{ ref('order_counts') }}
order by custdist desc, c_count desc
