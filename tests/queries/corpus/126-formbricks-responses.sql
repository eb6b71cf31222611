-- Formbricks (formbricks/formbricks)
-- tables
create table surveys (id text primary key, workspace_id text not null);
create table responses (id text primary key, survey_id text not null references surveys, created_at timestamp not null);

-- query
select count(r.id) as responses
from responses as r join surveys as s on s.id = r.survey_id
where s.workspace_id in ('a', 'b') /* :workspaces */ and r.created_at >= '2026-11-07 10:00' /* :from */ and r.created_at < '2026-12-07 10:00' /* :to */;

-- model responses_by_minute
{{ config(materialized='waltally') }}
select survey_id, date_trunc('minute', created_at) as minute, count(id) as responses from {{ source('app', 'responses') }} group by 1, 2;

-- model survey_workspaces
{{ config(materialized='waltally') }}
select id, workspace_id from {{ source('app', 'surveys') }};

-- reads
select coalesce(sum(r.responses), 0) as responses
from {{ ref('responses_by_minute') }} as r join {{ ref('survey_workspaces') }} as s on s.id = r.survey_id
where s.workspace_id in ('a', 'b') and r.minute >= '2026-11-07 10:00' and r.minute < '2026-12-07 10:00';
