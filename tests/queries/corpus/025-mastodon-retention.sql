-- Mastodon (mastodon/mastodon)
-- tables
create table users (id bigint primary key, created_at timestamp not null, seen_at timestamp);

-- query
select c.month as joined, r.month as seen,
    (select count(*) from users as u where date_trunc('month', u.created_at) = c.month and date_trunc('month', u.seen_at) >= r.month) as retained,
    (select count(*) from users as u where date_trunc('month', u.created_at) = c.month) as cohort
from generate_series('2026-06-01'::timestamp, '2026-11-01', interval '1 month') as c (month)
join generate_series('2026-06-01'::timestamp, '2026-11-01', interval '1 month') as r (month) on r.month >= c.month
order by 1, 2;

-- values
-- created_at: '2026-05-31 23:59' | '2026-06-01' | '2026-06-17' | '2026-07-01' | '2026-10-31 23:59:59'
-- seen_at: '2026-06-30 23:59' | '2026-08-01' | '2026-11-01' | '2026-12-24' | null
