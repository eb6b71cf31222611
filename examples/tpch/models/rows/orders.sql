{{ config(materialized='waltally') }}

select
    o_orderkey,
    o_custkey,
    o_orderstatus::text as o_orderstatus,
    o_totalprice,
    o_orderdate,
    o_orderpriority::text as o_orderpriority,
    o_shippriority
from {{ source('tpch', 'orders') }}
