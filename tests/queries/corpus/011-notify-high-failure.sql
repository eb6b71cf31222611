-- GOV.UK Notify (alphagov/notifications-api)
-- tables
create table services (id uuid primary key, is_trial boolean not null, active boolean not null);
create table messages (id uuid primary key, service_id uuid not null references services, key_kind text not null, channel text not null,
    status text not null, created_at timestamp not null);

-- query
select m.service_id, count(m.id) as failed, t.total, count(m.id)::float / t.total as rate
from messages as m join services as s on s.id = m.service_id
join (
    select service_id, count(*) as total from messages
    where created_at >= '2026-11-25' and created_at < '2026-11-26' and key_kind <> 'test' and channel = 'sms'
    group by service_id having count(*) >= 3
) as t on t.service_id = m.service_id
where m.created_at >= '2026-11-25' /* :from */ and m.created_at < '2026-11-26' /* :to */ and m.key_kind <> 'test' and m.channel = 'sms'
    and m.status = 'permanent-failure' and not s.is_trial and s.active
group by m.service_id, t.total having count(m.id)::float / t.total >= 0.25;

-- values
-- key_kind: 'normal' | 'team' | 'test'
-- channel: 'sms' | 'sms' | 'email'
-- status: 'permanent-failure' | 'delivered'
-- is_trial: false | false | true
-- active: true | true | false
-- services.id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
-- service_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
