{{ config(materialized='waltally') }}

select
    id,
    name,
    budget,
    is_open,
    brief
from {{ source('berlin', 'projects') }}
