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

-- values
-- progress: 'completed' | 'started' | 'cancelled' | 'backlog'
-- deleted_at: null | null | '2026-11-01'
