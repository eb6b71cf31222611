{{ config(materialized='waltally') }}

select
    n_nationkey,
    n_name::text as n_name,
    n_regionkey
from {{ source('tpch', 'nation') }}
