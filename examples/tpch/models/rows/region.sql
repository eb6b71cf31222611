{{ config(materialized='waltally') }}

select r_regionkey, r_name from {{ source('tpch', 'region') }}
