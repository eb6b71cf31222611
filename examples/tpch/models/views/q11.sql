with stock as (
    select stock.ps_partkey, sum(stock.value) as value
    from {{ ref('stock_value') }} as stock
    inner join {{ ref('nation') }} as nation on nation.n_nationkey = stock.s_nationkey
    where nation.n_name = 'GERMANY'
    group by stock.ps_partkey
)

select ps_partkey, value
from stock
where value > (select sum(value) * 0.0001 from stock)
order by value desc, ps_partkey
