{{ config(materialized='waltally', surrogate_key='id') }}

select
    each_office.office,
    each_office.project_id,
    each_office.month,
    each_office.project_name,
    each_office.budget,
    each_office.is_open,
    sum(each_office.entry_count)::bigint as entry_count,
    sum(each_office.hours) as hours
from (
    select
        'berlin' as office,
        hours.project_id,
        hours.month,
        projects.name as project_name,
        projects.budget,
        projects.is_open,
        hours.entry_count,
        hours.hours
    from {{ ref('berlin_hours') }} as hours
    left join {{ ref('berlin_projects') }} as projects on hours.project_id = projects.id
    union all
    select
        'lisbon' as office,
        hours.project_id,
        hours.month,
        projects.name,
        projects.budget,
        projects.is_open,
        hours.entry_count,
        hours.hours
    from {{ ref('lisbon_hours') }} as hours
    left join {{ ref('lisbon_projects') }} as projects on hours.project_id = projects.id
) as each_office
group by 1, 2, 3, 4, 5, 6
