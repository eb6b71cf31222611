-- Zulip (zulip/zulip)
-- tables
create table users (id integer primary key, realm_id integer not null, is_bot boolean not null);
create table messages (id bigint primary key, sender_id integer not null references users, sent_at timestamptz not null);

-- query
select u.realm_id, u.is_bot, date_trunc('hour', m.sent_at) as hour, count(*) as messages
from users as u join messages as m on m.sender_id = u.id
where m.sent_at >= '2026-11-25 00:00+00' /* :from */ and m.sent_at < '2026-11-26 00:00+00' /* :to */
group by u.realm_id, u.is_bot, hour;

-- model messages_by_hour
{{ config(materialized='waltally', timezone='UTC') }}
select sender_id, date_trunc('hour', sent_at) as hour, count(*) as messages from {{ source('app', 'messages') }} group by 1, 2;

-- model senders
{{ config(materialized='waltally') }}
select id, realm_id, is_bot from {{ source('app', 'users') }};

-- reads
select u.realm_id, u.is_bot, m.hour, sum(m.messages) as messages
from {{ ref('senders') }} as u join {{ ref('messages_by_hour') }} as m on m.sender_id = u.id
where m.hour >= '2026-11-25 00:00+00' and m.hour < '2026-11-26 00:00+00'
group by u.realm_id, u.is_bot, m.hour;
