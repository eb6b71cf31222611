-- Umami (umami-software/umami)
-- tables
create table site_events (id uuid primary key, site_id uuid not null, session_id uuid not null, visit_id uuid not null, kind integer not null, created_at timestamptz not null);

-- query
select to_char(date_trunc('day', created_at at time zone 'Asia/Kolkata' /* :zone */), 'YYYY-MM-DD') as day, count(*) as views
from site_events
where site_id = '00000000-0000-0000-0000-000000000001' /* :site */ and kind not in (2, 5)
    and created_at >= '2026-11-01 00:00+05:30' /* :from */ and created_at < '2026-11-25 00:00+05:30' /* :to */
group by 1 order by 1;

-- values
-- site_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
