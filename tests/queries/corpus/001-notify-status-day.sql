-- GOV.UK Notify (alphagov/notifications-api)
-- tables
create table messages (id uuid primary key, service_id uuid not null, template_id uuid not null, job_id uuid,
    key_kind text not null, channel text not null, status text not null, created_at timestamp not null);
create table messages_history (like messages including all);

-- query
select template_id, coalesce(job_id, '00000000-0000-0000-0000-000000000000') as job, key_kind, status, count(*) as messages
from (select * from messages union all select * from messages_history) as m
where created_at >= '2026-11-25 00:00' /* :from */ and created_at < '2026-11-26 00:00' /* :to */
    and channel = 'sms' /* :channel */ and service_id = '00000000-0000-0000-0000-000000000001' /* :service */
    and key_kind in ('normal', 'team')
group by template_id, job, key_kind, status;

-- values
-- channel: 'sms' | 'sms' | 'email'
-- key_kind: 'normal' | 'team' | 'test'
-- service_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
