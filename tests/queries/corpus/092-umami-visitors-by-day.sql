-- Umami (umami-software/umami)
-- tables
create table site_events (id uuid primary key, site_id uuid not null, session_id uuid not null, kind integer not null, created_at timestamptz not null);

-- query
select to_char(date_trunc('day', created_at at time zone 'Asia/Kolkata' /* :zone */), 'YYYY-MM-DD') as day, count(distinct session_id) as visitors
from site_events
where site_id = '00000000-0000-0000-0000-000000000001' /* :site */ and kind not in (2, 5)
    and created_at between '2026-11-01' /* :from */ and '2026-11-25' /* :to */
group by 1 order by 1;

-- values
-- site_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
-- created_at: '2026-10-31 23:59+00' | '2026-11-01 00:00+00' | '2026-11-03 18:29:59+00' | '2026-11-03 18:30+00' | '2026-11-24 23:59+00' | '2026-11-25 00:01+00'
-- kind: 1 | 1 | 2 | 5
