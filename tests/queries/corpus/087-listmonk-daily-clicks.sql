-- listmonk (knadh/listmonk)
-- tables
create table clicks (id bigint primary key, campaign_id integer, link_id integer not null, subscriber_id integer, created_at timestamptz not null);

-- query
with last as (select (created_at at time zone 'UTC')::date as day from clicks order by created_at desc limit 1)
select (created_at at time zone 'UTC')::date as day, count(*) as clicks
from clicks
where (created_at at time zone 'UTC')::date >= (select day - 30 from last) and (created_at at time zone 'UTC')::date <= (select day from last)
group by 1 order by 1;

-- values
-- created_at: '2026-10-01 23:59Z' | '2026-10-16 12:00Z' | '2026-10-25 00:00Z' | '2026-11-10 00:00Z' | '2026-11-24 23:59Z'
