-- Zulip (zulip/zulip)
-- tables
create table users (id integer primary key, realm_id integer not null, is_bot boolean not null);
create table messages (id bigint primary key, sender_id integer not null references users, sent_at timestamptz not null);

-- query
select u.realm_id, u.is_bot, date_trunc('hour', m.sent_at) as hour, count(*) as messages
from users as u join messages as m on m.sender_id = u.id
where m.sent_at >= '2026-11-25 00:00+00' /* :from */ and m.sent_at < '2026-11-26 00:00+00' /* :to */
group by u.realm_id, u.is_bot, hour;
