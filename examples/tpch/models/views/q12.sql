select
    l_shipmode::text as l_shipmode,
    coalesce(high_line_count, 0) as high_line_count,
    line_count - coalesce(high_line_count, 0) as low_line_count
from {{ ref('mailed_priorities') }}
order by l_shipmode
