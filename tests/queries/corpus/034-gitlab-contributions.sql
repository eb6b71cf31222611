-- GitLab (gitlabhq/gitlabhq)
-- tables
create table events (id bigint primary key, author_id bigint not null, project_id bigint, action integer not null, created_at timestamptz not null);

-- query
select date(created_at at time zone 'UTC') as day, count(id) as events
from events
where author_id = 1 /* :user */ and created_at > (current_date - 365)::timestamp at time zone 'UTC' and project_id in (1, 2, 3) /* :projects */
    and action in (1, 3, 5, 7)
group by day;

-- model events_by_day
{{ config(materialized='waltally') }}
select author_id, project_id, action, date(created_at at time zone 'UTC') as day,
    (created_at at time zone 'UTC')::time = '00:00' as is_at_midnight, count(*) as events
from {{ source('app', 'events') }}
group by 1, 2, 3, 4, 5;

-- reads
select day, sum(events) as events
from {{ ref('events_by_day') }}
where author_id = 1 and (day > current_date - 365 or day = current_date - 365 and not is_at_midnight) and project_id in (1, 2, 3)
    and action in (1, 3, 5, 7)
group by day;

-- values
-- author_id: 1 | 2
-- action: 1 | 2 | 3
