{{ config(materialized='waltally') }}

select
    l_orderkey,
    sum(quantity) as quantity
from {{ ref('order_lines') }}
where quantity > 300
group by 1
