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

-- values
-- templates.id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002' | '00000000-0000-0000-0000-000000000003'
-- created_at: current_date - interval '7 days' | now()::timestamp - interval '2 days' | now()::timestamp - interval '8 days 1 hour' | now()::timestamp - interval '12 hours' | now()::timestamp
-- channel: 'letter' | 'letter' | 'sms'
-- status: 'created' | 'created' | 'cancelled'
-- api_key_id: null | null | '00000000-0000-0000-0000-000000000001'
-- service_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
