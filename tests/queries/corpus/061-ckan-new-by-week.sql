-- CKAN (ckan/ckan)
-- tables
create table revisions (id text primary key, package_id text not null, revised_at timestamp not null);

-- query
select week, count(*) as packages, sum(count(*)) over (order by week) as total
from (select package_id, date_trunc('week', min(revised_at))::date as week from revisions group by package_id) as f
group by week order by week;

-- model days
{{ config(materialized='waltally') }}
select package_id, revised_at::date as day, count(*) as revisions from {{ source('app', 'revisions') }} group by 1, 2;

-- model first_days
{{ config(materialized='waltally') }}
select package_id, min(day) as day from {{ ref('days') }} group by 1;

-- model new_by_week
{{ config(materialized='waltally') }}
select date_trunc('week', day::timestamp)::date as week, count(*) as packages from {{ ref('first_days') }} group by 1;

-- reads
select week, packages, sum(packages) over (order by week) as total from {{ ref('new_by_week') }} order by week;

-- values
-- revised_at: '2026-11-01 10:00' | '2026-11-02' | '2026-11-08 23:59' | '2026-11-09 08:00' | '2026-12-31 12:00'
