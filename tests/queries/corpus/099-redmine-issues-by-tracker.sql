-- Redmine (redmine/redmine)
-- tables
create table statuses (id integer primary key, name text not null, is_closed boolean not null);
create table issues (id integer primary key, project_id integer not null, tracker_id integer not null, status_id integer not null references statuses,
    is_private boolean not null);

-- query
select i.status_id, s.is_closed, i.tracker_id, count(*) as issues
from issues as i join statuses as s on s.id = i.status_id
where i.project_id in (1, 2, 3) /* :projects */ and not i.is_private
group by i.status_id, s.is_closed, i.tracker_id;
