-- Sentry (getsentry/sentry)
-- tables
create table issues (id bigint primary key, first_seen timestamptz not null);
create table issue_history (id bigint primary key, issue_id bigint not null references issues, team_id bigint, status integer not null,
    added_at timestamptz not null, previous_at timestamptz);

-- query
select date_trunc('day', h.added_at) as day, avg(h.added_at - coalesce(h.previous_at, i.first_seen)) as duration
from issue_history as h join issues as i on i.id = h.issue_id
where h.team_id = 1 /* :team */ and h.status = 1 and h.added_at >= '2026-11-01' /* :from */ and h.added_at <= '2026-11-25' /* :to */
group by day;

-- model resolutions
select id, issue_id, team_id, added_at, previous_at from {{ source('app', 'issue_history') }} where status = 1;

-- model issue_starts
select id, first_seen from {{ source('app', 'issues') }};

-- model resolved
{{ config(materialized='waltally', timezone='UTC') }}
select h.team_id, date_trunc('day', h.added_at) as day, sum(extract(epoch from h.added_at - coalesce(h.previous_at, i.first_seen))) as seconds, count(*) as resolutions
from {{ ref('resolutions') }} as h join {{ ref('issue_starts') }} as i on i.id = h.issue_id
group by 1, 2;

-- reads
select day, make_interval(secs => sum(seconds / resolutions)::double precision) as duration
from {{ ref('resolved') }} where team_id = 1 and day >= '2026-11-01' and day < '2026-11-25' group by day;

-- values
-- first_seen: '2026-10-03 10:00+00' | '2026-11-01 10:00+00'
-- previous_at: null | null | '2026-11-02 10:00+00'
-- added_at: '2026-10-31 10:00+00' | '2026-11-03 10:00+00' | '2026-11-04 10:00+00' | '2026-11-24 10:00+00' | '2026-11-25 10:00+00'
-- team_id: 1 | 1 | 2
-- status: 1 | 1 | 2
