select
    l_returnflag,
    l_linestatus,
    sum_qty,
    sum_base_price,
    sum_disc_price,
    sum_charge,
    avg_qty,
    avg_price,
    avg_disc,
    count_order
from {{ ref('pricing_summary') }}
order by l_returnflag, l_linestatus
