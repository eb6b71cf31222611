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

-- model current_issues
{{ config(materialized='waltally') }}
select id, state_id from {{ source('app', 'issues') }} where archived_at is null and not is_draft;

-- model issues_of_cycles
{{ config(materialized='waltally') }}
select cycle_id, issue_id, count(*) as times from {{ source('app', 'cycle_issues') }} where deleted_at is null group by 1, 2;

-- model state_kinds
{{ config(materialized='waltally') }}
select id, progress from {{ source('app', 'states') }};

-- model cycles
{{ config(materialized='waltally') }}
select m.cycle_id, sum(m.times) as total, coalesce(sum(m.times) filter (where s.progress = 'completed'), 0) as completed,
    coalesce(sum(m.times) filter (where s.progress = 'started'), 0) as started
from {{ ref('issues_of_cycles') }} as m join {{ ref('current_issues') }} as i on i.id = m.issue_id left join {{ ref('state_kinds') }} as s on s.id = i.state_id
group by 1;

-- reads
select cycle_id, total, completed, started from {{ ref('cycles') }};

-- values
-- progress: 'completed' | 'started' | 'backlog'
-- deleted_at: null | null | '2026-11-01'
-- archived_at: null | null | '2026-11-01'
-- is_draft: false | false | true
