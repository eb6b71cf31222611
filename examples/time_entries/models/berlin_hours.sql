{{ config(materialized='waltally', timezone='Europe/Berlin') }}

select
    date_trunc('month', started_at at time zone 'UTC')::date as month,
    project_id,
    count(*) as entry_count,
    coalesce(sum(hours), 0) as hours
from {{ source('berlin', 'time_entries') }}
group by 1, 2
