-- Formbricks (formbricks/formbricks)
-- tables
create table surveys (id text primary key, workspace_id text not null);
create table responses (id text primary key, survey_id text not null references surveys, created_at timestamp not null);

-- query
select count(r.id) as responses
from responses as r join surveys as s on s.id = r.survey_id
where s.workspace_id in ('a', 'b') /* :workspaces */ and r.created_at >= '2026-11-07 10:00' /* :from */ and r.created_at < '2026-12-07 10:00' /* :to */;
