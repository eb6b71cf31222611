{{ config(materialized='waltally') }}

select
    "Customer no",
    "Name",
    "Region"
from {{ source('shop', 'Customers') }}
