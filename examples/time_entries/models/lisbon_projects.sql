{{ config(materialized='waltally') }}

select
    id,
    name,
    budget,
    is_open,
    brief
from {{ source('lisbon', 'projects') }}
