-- Discourse (discourse/discourse)
-- tables
create table visits (id integer primary key, user_id integer not null, visited_on date not null, unique (user_id, visited_on));

-- query
select d.day, count(distinct v.user_id) filter (where v.visited_on = d.day) as daily, count(distinct v.user_id) as monthly
from generate_series('2026-11-01'::date, '2026-11-25'::date, interval '1 day') as d (day)
join visits as v on v.visited_on > d.day - interval '30 days' and v.visited_on <= d.day
group by d.day order by d.day;
