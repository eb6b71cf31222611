{{ config(materialized='waltally') }}

select
    s_suppkey,
    s_name::text as s_name,
    s_address,
    s_nationkey,
    s_phone::text as s_phone,
    s_acctbal,
    s_comment,
    s_comment like '%Customer%Complaints%' as has_complaints
from {{ source('tpch', 'supplier') }}
