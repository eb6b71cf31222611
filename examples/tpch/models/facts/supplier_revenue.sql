{{ config(materialized='waltally') }}

select
    l_suppkey,
    sum(l_extendedprice * (1 - l_discount)) as revenue
from {{ source('tpch', 'lineitem') }}
where l_shipdate >= '1996-01-01' and l_shipdate < '1996-04-01'
group by 1
