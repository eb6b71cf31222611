-- GOV.UK Notify (alphagov/notifications-api)
-- tables
create table templates (id uuid primary key, hidden boolean not null);
create table messages (id uuid primary key, service_id uuid not null, template_id uuid not null references templates, api_key_id uuid,
    channel text not null, status text not null, created_at timestamp not null);

-- query
select count(*) as letters,
    (((m.created_at at time zone 'UTC') at time zone 'Europe/London') + interval '6 hours 30 minutes')::date as printed_on
from messages as m join templates as t on t.id = m.template_id
where m.service_id = '00000000-0000-0000-0000-000000000001' /* :service */ and m.channel = 'letter' and m.api_key_id is null
    and m.status <> 'cancelled' and t.hidden and m.created_at >= current_date - 7
group by printed_on;

-- model letters_by_day
{{ config(materialized='waltally') }}
select service_id, template_id, created_at::date as day,
    (((created_at at time zone 'UTC') at time zone 'Europe/London') + interval '6 hours 30 minutes')::date as printed_on, count(*) as letters
from {{ source('app', 'messages') }}
where channel = 'letter' and api_key_id is null and status <> 'cancelled'
group by 1, 2, 3, 4;

-- model hidden_templates
{{ config(materialized='waltally') }}
select id from {{ source('app', 'templates') }} where hidden;

-- reads
select sum(m.letters) as letters, m.printed_on
from {{ ref('letters_by_day') }} as m join {{ ref('hidden_templates') }} as t on t.id = m.template_id
where m.service_id = '00000000-0000-0000-0000-000000000001' and m.day >= current_date - 7
group by m.printed_on;

-- values
-- channel: 'letter' | 'sms'
-- status: 'created' | 'cancelled'
-- api_key_id: null | null | '00000000-0000-0000-0000-000000000001'
-- service_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
