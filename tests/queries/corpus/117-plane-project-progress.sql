-- Plane (makeplane/plane)
-- tables
create table projects (id uuid primary key, name text not null);
create table states (id uuid primary key, progress text not null);
create table issues (id uuid primary key, project_id uuid not null references projects, state_id uuid references states, deleted_at timestamptz, created_at timestamptz not null);

-- query
select i.project_id, p.name, count(*) filter (where s.progress = 'completed') as completed, count(*) filter (where s.progress = 'started') as started,
    count(*) filter (where s.progress = 'cancelled') as cancelled
from issues as i join projects as p on p.id = i.project_id left join states as s on s.id = i.state_id
where i.deleted_at is null and (i.created_at at time zone 'UTC')::date between '2026-11-01' /* :from */ and '2026-11-25' /* :to */
group by i.project_id, p.name order by i.project_id;

-- model issues_by_day
{{ config(materialized='waltally') }}
select project_id, state_id, (created_at at time zone 'UTC')::date as day, count(*) as issues
from {{ source('app', 'issues') }}
where deleted_at is null
group by 1, 2, 3;

-- model project_names
{{ config(materialized='waltally') }}
select id, name from {{ source('app', 'projects') }};

-- model state_progress
{{ config(materialized='waltally') }}
select id, progress from {{ source('app', 'states') }};

-- reads
select i.project_id, p.name, coalesce(sum(i.issues) filter (where s.progress = 'completed'), 0) as completed,
    coalesce(sum(i.issues) filter (where s.progress = 'started'), 0) as started,
    coalesce(sum(i.issues) filter (where s.progress = 'cancelled'), 0) as cancelled
from {{ ref('issues_by_day') }} as i join {{ ref('project_names') }} as p on p.id = i.project_id left join {{ ref('state_progress') }} as s on s.id = i.state_id
where i.day between '2026-11-01' and '2026-11-25'
group by i.project_id, p.name order by i.project_id;

-- values
-- progress: 'completed' | 'started' | 'cancelled' | 'backlog'
-- deleted_at: null | null | '2026-11-01'
