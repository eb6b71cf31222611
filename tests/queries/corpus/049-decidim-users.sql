-- Decidim (decidim/decidim)
-- tables
create table users (id bigint primary key, organisation_id bigint not null, confirmed_at timestamp, managed boolean not null);

-- query
select count(*) as cumulative, count(*) filter (where confirmed_at >= '2026-11-25') as quantity
from users where organisation_id = 1 /* :organisation */ and confirmed_at < '2026-11-26' /* :day */ and not managed;

-- model confirmed_users
{{ config(materialized='waltally') }}
select organisation_id, confirmed_at::date as day, count(*) as users from {{ source('app', 'users') }} where not managed group by 1, 2;

-- reads
select coalesce(sum(users), 0) as cumulative, coalesce(sum(users) filter (where day >= '2026-11-25'), 0) as quantity
from {{ ref('confirmed_users') }} where organisation_id = 1 and day < '2026-11-26';

-- values
-- organisation_id: 1 | 2
