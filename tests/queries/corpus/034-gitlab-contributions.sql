-- GitLab (gitlabhq/gitlabhq)
-- tables
create table events (id bigint primary key, author_id bigint not null, project_id bigint, action integer not null, created_at timestamptz not null);

-- query
select date(created_at at time zone 'UTC') as day, count(id) as events
from events
where author_id = 1 /* :user */ and created_at > (current_date - 365)::timestamp at time zone 'UTC' and project_id in (1, 2, 3) /* :projects */
    and action in (1, 3, 5, 7)
group by day;

-- values
-- author_id: 1 | 2
-- action: 1 | 2 | 3
