{{ config(materialized='waltally') }}

select
    l_orderkey,
    l_linenumber,
    l_partkey,
    l_suppkey,
    l_quantity,
    l_extendedprice,
    l_shipdate,
    l_extendedprice * (1 - l_discount) as revenue,
    l_commitdate < l_receiptdate as is_late,
    l_returnflag = 'R' as is_returned,
    l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON' as is_handed_over
from {{ source('tpch', 'lineitem') }}
