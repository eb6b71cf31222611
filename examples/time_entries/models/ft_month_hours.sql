{{ config(materialized='waltally', surrogate_key='id') }}

select
    office,
    month,
    is_open,
    sum(entry_count)::bigint as entry_count,
    sum(hours) as hours,
    count(distinct project_id) as project_count,
    count(distinct project_name) as name_count,
    min(budget) as least_budget,
    max(budget) as largest_budget,
    round(sum(hours) / nullif(sum(entry_count), 0), 2) as average_hours
from {{ ref('ft_project_hours') }}
group by 1, 2, 3
