-- Plane (makeplane/plane)
-- tables
create table states (id uuid primary key, progress text not null);
create table issues (id uuid primary key, state_id uuid references states, archived_at timestamptz, is_draft boolean not null);
create table cycle_issues (id uuid primary key, cycle_id uuid not null, issue_id uuid not null references issues, deleted_at timestamptz);

-- query
select m.cycle_id, count(*) as total, count(*) filter (where s.progress = 'completed') as completed, count(*) filter (where s.progress = 'started') as started
from cycle_issues as m join issues as i on i.id = m.issue_id left join states as s on s.id = i.state_id
where m.deleted_at is null and i.archived_at is null and not i.is_draft
group by m.cycle_id;

-- values
-- progress: 'completed' | 'started' | 'backlog'
-- deleted_at: null | null | '2026-11-01'
-- archived_at: null | null | '2026-11-01'
-- is_draft: false | false | true
