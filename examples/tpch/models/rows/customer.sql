{{ config(materialized='waltally') }}

select
    c_custkey,
    c_name,
    c_address,
    c_nationkey,
    c_phone::text as c_phone,
    c_acctbal,
    c_mktsegment::text as c_mktsegment,
    c_comment
from {{ source('tpch', 'customer') }}
