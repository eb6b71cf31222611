{{ config(materialized='waltally') }}

select
    p_partkey,
    p_name,
    p_mfgr::text as p_mfgr,
    p_brand::text as p_brand,
    p_type,
    p_size,
    p_container::text as p_container
from {{ source('tpch', 'part') }}
