-- Zulip (zulip/zulip)
-- tables
create table users (id integer primary key, realm_id integer not null, is_bot boolean not null);
create table audit (id bigint primary key, user_id integer not null references users, kind integer not null, at timestamptz not null, unique (user_id, at));

-- query
select u.realm_id, u.is_bot, count(*) as accounts
from users as u join (
    select distinct on (user_id) user_id, kind from audit where kind in (101, 102, 103, 104) and at < '2026-11-26 00:00+00' /* :day */
    order by user_id, at desc
) as l on l.user_id = u.id
where l.kind in (101, 102, 104)
group by u.realm_id, u.is_bot;

-- model events
select id, user_id, kind, at from {{ source('app', 'audit') }} where kind in (101, 102, 103, 104);

-- model last_of_day
select user_id, (at at time zone 'UTC')::date as day, max(at) as at from {{ ref('events') }} group by 1, 2;

-- model states_by_day
select l.user_id, l.day, e.kind, count(*) as events from {{ ref('last_of_day') }} as l join {{ ref('events') }} as e on e.user_id = l.user_id and e.at = l.at group by 1, 2, 3;

-- model accounts
select id, realm_id, is_bot from {{ source('app', 'users') }};

-- reads
select u.realm_id, u.is_bot, count(*) as accounts
from {{ ref('accounts') }} as u join (
    select distinct on (user_id) user_id, kind from {{ ref('states_by_day') }} where day < '2026-11-26' order by user_id, day desc
) as l on l.user_id = u.id
where l.kind in (101, 102, 104)
group by u.realm_id, u.is_bot;

-- values
-- kind: 101 | 102 | 103 | 104 | 200
-- at: '2026-11-24 08:00+00' | '2026-11-25 08:00+00' | '2026-11-25 09:00+00' | '2026-11-25 23:59:59+00' | '2026-11-26 00:00+00'
