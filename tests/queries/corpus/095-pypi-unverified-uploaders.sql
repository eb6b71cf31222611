-- PyPI (pypi/warehouse)
-- tables
create table users (id uuid primary key, is_active boolean not null);
create table emails (id integer primary key, user_id uuid not null references users, verified boolean);
create table releases (id uuid primary key, uploader_id uuid references users, created_at timestamp not null);

-- query
select count(distinct u.id)
from users as u left join emails as e on e.user_id = u.id join releases as r on r.uploader_id = u.id
where u.is_active and (e.verified is null or not e.verified) and r.created_at > now() - interval '730 days';

-- values
-- is_active: true | true | false
-- created_at: now()::timestamp - interval '3 days' | now()::timestamp - interval '700 days' | now()::timestamp - interval '760 days'
-- uploader_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002' | '00000000-0000-0000-0000-000000000003' | '00000000-0000-0000-0000-000000000007' | null
