-- Zulip (zulip/zulip)
-- tables
create table channels (id integer primary key, is_private boolean not null);
create table recipients (id integer primary key, kind integer not null, target_id integer not null);
create table messages (id bigint primary key, sender_id integer not null, recipient_id integer not null references recipients, sent_at timestamptz not null);

-- query
select m.sender_id, case when r.kind = 1 then 'private' when r.kind = 3 then 'group' when c.is_private then 'private channel' else 'public channel' end as kind,
    count(*) as messages
from messages as m join recipients as r on r.id = m.recipient_id left join channels as c on c.id = r.target_id
where m.sent_at >= '2026-11-25 00:00+00' /* :from */ and m.sent_at < '2026-11-26 00:00+00' /* :to */
group by m.sender_id, 2;
