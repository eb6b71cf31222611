{{ config(materialized='waltally') }}

select
    id,
    name
from {{ source('notify', 'services') }}
