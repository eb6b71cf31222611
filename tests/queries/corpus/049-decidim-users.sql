-- Decidim (decidim/decidim)
-- tables
create table users (id bigint primary key, organisation_id bigint not null, confirmed_at timestamp, managed boolean not null);

-- query
select count(*) as cumulative, count(*) filter (where confirmed_at >= '2026-11-25') as quantity
from users where organisation_id = 1 /* :organisation */ and confirmed_at < '2026-11-26' /* :day */ and not managed;

-- values
-- organisation_id: 1 | 2
