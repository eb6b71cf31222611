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

-- model messages_by_day
{{ config(materialized='waltally') }}
select day, service_id, template_id, channel, status, key_kind, origin, sum(messages) as messages
from (
    select day, service_id, template_id, channel, status, key_kind, 'nightly' as origin, messages from {{ source('app', 'nightly_statuses') }}
    union all
    select created_at::date, service_id, template_id, channel, status, key_kind, 'live', 1 from {{ source('app', 'messages') }}
) as m
where key_kind <> 'test'
group by 1, 2, 3, 4, 5, 6, 7;

-- model template_names
{{ config(materialized='waltally') }}
select id, name, is_letter_file from {{ source('app', 'templates') }};

-- reads
select t.name, t.is_letter_file, m.template_id, m.channel, m.status, sum(m.messages) as messages
from {{ ref('messages_by_day') }} as m
left join {{ ref('template_names') }} as t on t.id = m.template_id
where m.service_id = '00000000-0000-0000-0000-000000000001'
    and (m.origin = 'nightly' and m.day >= current_date - 7 or m.origin = 'live' and m.day >= current_date)
group by t.name, t.is_letter_file, m.template_id, m.channel, m.status;

-- values
-- key_kind: 'normal' | 'team' | 'test'
-- channel: 'sms' | 'email'
-- service_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
