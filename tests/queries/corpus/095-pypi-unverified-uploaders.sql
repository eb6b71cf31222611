-- PyPI (pypi/warehouse)
-- tables
create table users (id uuid primary key, is_active boolean not null);
create table emails (id integer primary key, user_id uuid not null references users, verified boolean);
create table releases (id uuid primary key, uploader_id uuid references users, created_at timestamp not null);

-- query
select count(distinct u.id)
from users as u left join emails as e on e.user_id = u.id join releases as r on r.uploader_id = u.id
where u.is_active and (e.verified is null or not e.verified) and r.created_at > now() - interval '730 days';

-- model active_users
{{ config(materialized='waltally') }}
select id from {{ source('app', 'users') }} where is_active;

-- model emails_by_user
{{ config(materialized='waltally') }}
select user_id, count(*) filter (where verified is not true) as unverified from {{ source('app', 'emails') }} group by 1;

-- model uploads
{{ config(materialized='waltally') }}
select uploader_id, created_at::date as day, count(*) as releases from {{ source('app', 'releases') }} group by 1, 2;

-- model last_uploads
{{ config(materialized='waltally') }}
select uploader_id, max(day) as last_day from {{ ref('uploads') }} group by 1;

-- model uploaders_by_last_day
{{ config(materialized='waltally') }}
select r.last_day, count(*) as users
from {{ ref('active_users') }} as u join {{ ref('last_uploads') }} as r on r.uploader_id = u.id left join {{ ref('emails_by_user') }} as e on e.user_id = u.id
where e.user_id is null or e.unverified > 0
group by 1;

-- reads
select coalesce(sum(users), 0) as count from {{ ref('uploaders_by_last_day') }} where last_day > now() - interval '730 days';

-- values
-- is_active: true | true | false
-- created_at: now()::timestamp - interval '3 days' | now()::timestamp - interval '700 days' | now()::timestamp - interval '760 days'
-- uploader_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002' | '00000000-0000-0000-0000-000000000003' | '00000000-0000-0000-0000-000000000007' | null
