{{ config(materialized='waltally') }}

select
    l_orderkey,
    l_shipmode,
    count(*) as line_count
from {{ source('tpch', 'lineitem') }}
where
    l_shipmode in ('MAIL', 'SHIP')
    and l_commitdate < l_receiptdate
    and l_shipdate < l_commitdate
    and l_receiptdate >= '1994-01-01'
    and l_receiptdate < '1995-01-01'
group by 1, 2
