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

-- values
-- year: 2026
