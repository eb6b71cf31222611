-- GOV.UK Notify (alphagov/notifications-api)
-- tables
create table services (id uuid primary key, is_crown boolean not null);
create table service_permissions (service_id uuid references services, permission text, granted_at timestamp not null, primary key (service_id, permission));
create table messages (id uuid primary key, service_id uuid not null references services, template_id uuid not null, key_kind text not null,
    channel text not null, status text not null, provider text, multiplier integer, abroad boolean, fragments integer not null,
    created_at timestamp not null);

-- query
select m.template_id, s.is_crown, s.id as service_id, coalesce(m.provider, 'unknown') as provider,
    coalesce(m.multiplier, 1) as multiplier, coalesce(m.abroad, false) as abroad, sum(m.fragments) as fragments, count(*) as messages
from messages as m
join services as s on s.id = m.service_id
join service_permissions as p on p.service_id = m.service_id and p.permission = m.channel
where m.status in ('sending', 'sent', 'delivered', 'pending', 'temporary-failure', 'permanent-failure')
    and m.key_kind in ('normal', 'team') and m.channel = 'sms'
    and m.created_at >= '2026-11-25' /* :from */ and m.created_at < '2026-11-26' /* :to */
group by 1, 2, 3, 4, 5, 6;

-- values
-- permission: 'sms' | 'email'
-- channel: 'sms' | 'sms' | 'email'
-- key_kind: 'normal' | 'team' | 'test'
-- status: 'sent' | 'delivered' | 'created'
