{{ config(materialized='view') }}

select
    'berlin' as office,
    berlin.*
from {{ ref('berlin_projects') }} as berlin
union all
select
    'lisbon' as office,
    lisbon.*
from {{ ref('lisbon_projects') }} as lisbon
