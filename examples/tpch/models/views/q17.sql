with parts as (
    select
        l_partkey,
        0.2 * sum(l_quantity * line_count) / sum(line_count) as bound
    from {{ ref('box_quantities') }}
    group by l_partkey
)

select sum(sold.extendedprice) / 7.0 as avg_yearly
from {{ ref('box_quantities') }} as sold
inner join parts on sold.l_partkey = parts.l_partkey
where sold.l_quantity < parts.bound
