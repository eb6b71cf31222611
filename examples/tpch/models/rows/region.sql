{{ config(materialized='waltally') }}

select
    r_regionkey,
    r_name::text as r_name
from {{ source('tpch', 'region') }}
