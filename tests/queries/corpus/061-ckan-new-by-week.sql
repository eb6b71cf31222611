-- CKAN (ckan/ckan)
-- tables
create table revisions (id text primary key, package_id text not null, revised_at timestamp not null);

-- query
select week, count(*) as packages, sum(count(*)) over (order by week) as total
from (select package_id, date_trunc('week', min(revised_at))::date as week from revisions group by package_id) as f
group by week order by week;

-- values
-- revised_at: '2026-11-01 10:00' | '2026-11-02' | '2026-11-08 23:59' | '2026-11-09 08:00' | '2026-12-31 12:00'
