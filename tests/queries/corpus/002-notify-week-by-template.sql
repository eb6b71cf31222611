-- GOV.UK Notify (alphagov/notifications-api)
-- tables
create table templates (id uuid primary key, name text not null, is_letter_file boolean not null);
create table messages (id uuid primary key, service_id uuid not null, template_id uuid not null, key_kind text not null,
    channel text not null, status text not null, created_at timestamp not null);
create table nightly_statuses (day date, template_id uuid, service_id uuid, key_kind text, channel text, status text, messages integer,
    primary key (day, template_id, service_id, key_kind, channel, status));

-- query
select t.name, t.is_letter_file, s.template_id, s.channel, s.status, sum(s.messages) as messages
from (
    select template_id, channel, status, sum(messages) as messages
    from nightly_statuses
    where service_id = '00000000-0000-0000-0000-000000000001' /* :service */ and day >= current_date - 7 and key_kind <> 'test'
    group by template_id, channel, status
    union all
    select template_id, channel, status, count(*)
    from messages
    where service_id = '00000000-0000-0000-0000-000000000001' /* :service */ and key_kind <> 'test' and created_at >= date_trunc('day', now())
    group by template_id, channel, status
) as s left join templates as t on t.id = s.template_id
group by t.name, t.is_letter_file, s.template_id, s.channel, s.status;

-- values
-- key_kind: 'normal' | 'team' | 'test'
-- channel: 'sms' | 'email'
-- service_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
