-- The query calls its column value.
with stock as (
    select
        held.ps_partkey,
        sum(held.stock_value) as part_value
    from {{ ref('stock_value') }} as held
    inner join {{ ref('nation') }} as nation on held.s_nationkey = nation.n_nationkey
    where nation.n_name = 'GERMANY'
    group by held.ps_partkey
)

select
    stock.ps_partkey,
    stock.part_value as value -- noqa: RF04
from stock
where stock.part_value > (select sum(each_one.part_value) * 0.0001 from stock as each_one)
order by value desc, stock.ps_partkey asc
