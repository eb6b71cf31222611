-- Redmine (redmine/redmine)
-- tables
create table issues (id integer primary key, tracker_id integer not null, version_id integer, status_id integer not null);
create table activities (id integer primary key, parent_id integer, name text not null);
create table time_entries (id integer primary key, project_id integer not null, user_id integer not null, issue_id integer references issues,
    activity_id integer not null references activities, hours double precision not null, spent_on date not null, year integer not null, month integer not null);

-- query
select e.project_id, i.tracker_id, coalesce(a.parent_id, a.id) as activity, e.year, e.month, sum(e.hours) as hours
from time_entries as e left join issues as i on i.id = e.issue_id join activities as a on a.id = e.activity_id
where e.project_id in (1, 2) /* :projects */ and e.spent_on between '2026-01-01' /* :from */ and '2026-12-31' /* :to */
group by 1, 2, 3, 4, 5;

-- model hours_by_issue
{{ config(materialized='waltally') }}
select project_id, issue_id, activity_id, spent_on, year, month, sum(hours::text::numeric) as hours from {{ source('app', 'time_entries') }} group by 1, 2, 3, 4, 5, 6;

-- model issue_trackers
{{ config(materialized='waltally') }}
select id, tracker_id from {{ source('app', 'issues') }};

-- model activity_parents
{{ config(materialized='waltally') }}
select id, coalesce(parent_id, id) as activity from {{ source('app', 'activities') }};

-- model hours_by_tracker
{{ config(materialized='waltally') }}
select e.project_id, i.tracker_id, a.activity, e.spent_on, e.year, e.month, sum(e.hours) as hours
from {{ ref('hours_by_issue') }} as e left join {{ ref('issue_trackers') }} as i on i.id = e.issue_id join {{ ref('activity_parents') }} as a on a.id = e.activity_id
group by 1, 2, 3, 4, 5, 6;

-- reads
select project_id, tracker_id, activity, year, month, sum(hours)::double precision as hours
from {{ ref('hours_by_tracker') }} where project_id in (1, 2) and spent_on between '2026-01-01' and '2026-12-31' group by 1, 2, 3, 4, 5;

-- values
-- year: 2026
