-- GOV.UK Notify (alphagov/notifications-api)
-- tables
create table organisations (id uuid primary key, name text not null);
create table services (id uuid primary key, name text not null, organisation_id uuid references organisations, live boolean not null, live_since timestamp);
create table allowances (service_id uuid, year_start integer, free_units integer not null, primary key (service_id, year_start));
create table billing (id bigint primary key, day date not null, service_id uuid not null, channel text not null, messages integer not null);

-- query
select s.id, s.name, o.name, s.live_since, a.free_units,
    sum(case when b.channel = 'email' then b.messages else 0 end) as emails,
    sum(case when b.channel = 'sms' then b.messages else 0 end) as texts,
    sum(case when b.channel = 'letter' then b.messages else 0 end) as letters
from services as s
join (select distinct on (service_id) service_id, free_units from allowances order by service_id, year_start desc) as a on a.service_id = s.id
left join organisations as o on o.id = s.organisation_id
left join billing as b on b.service_id = s.id and b.day between '2026-04-01' and '2027-03-31'
where s.live
group by s.id, s.name, o.name, s.live_since, a.free_units order by s.live_since;

-- values
-- channel: 'sms' | 'email' | 'letter'
