{{ config(materialized='waltally') }}

select n_nationkey, n_name, n_regionkey from {{ source('tpch', 'nation') }}
