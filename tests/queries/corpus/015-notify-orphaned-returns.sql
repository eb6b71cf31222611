-- GOV.UK Notify (alphagov/notifications-api)
-- tables
create table messages (id uuid primary key);
create table messages_history (id uuid primary key);
create table returned_letters (id uuid primary key, service_id uuid not null, message_id uuid not null, reported_on date not null);

-- query
select count(r.id) from returned_letters as r
where r.service_id = '00000000-0000-0000-0000-000000000001' /* :service */ and r.reported_on = '2026-11-25' /* :day */
    and not exists (select 1 from messages as m where m.id = r.message_id)
    and not exists (select 1 from messages_history as h where h.id = r.message_id);

-- values
-- service_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
-- reported_on: '2026-11-25' | '2026-11-25' | '2026-11-24'
-- message_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000005' | '00000000-0000-0000-0000-000000000040' | '00000000-0000-0000-0000-000000000099'
