{{ config(materialized='waltally', timezone='Europe/Lisbon') }}

select
    date_trunc('month', started_at at time zone 'UTC')::date as month,
    project_id,
    count(*) as entry_count,
    coalesce(sum(hours), 0) as hours
from {{ source('lisbon', 'time_entries') }}
group by 1, 2
