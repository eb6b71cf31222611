-- GOV.UK Notify (alphagov/notifications-api)
-- tables
create table messages (id uuid primary key, api_key_id uuid, key_kind text not null, channel text not null, created_at timestamp not null, sent_at timestamp);

-- query
select count(*) as messages, coalesce(sum(case when sent_at - created_at <= interval '10 seconds' then 1 else 0 end), 0) as quick
from messages
where created_at >= '2026-11-25' /* :from */ and created_at < '2026-11-26' /* :to */
    and api_key_id is not null and key_kind <> 'test' and channel <> 'letter';

-- values
-- key_kind: 'normal' | 'test'
-- channel: 'sms' | 'letter'
-- created_at: '2026-11-24 23:59:59.999999' | '2026-11-25' | '2026-11-25 00:00:05' | '2026-11-26'
-- sent_at: '2026-11-25 00:00:10' | '2026-11-25 00:00:11' | null
