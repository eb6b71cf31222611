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

-- model message
{{ config(materialized='waltally') }}
select id from {{ source('app', 'messages') }};

-- model old_message
{{ config(materialized='waltally') }}
select id from {{ source('app', 'messages_history') }};

-- model letters
{{ config(materialized='waltally') }}
select service_id, reported_on, message_id, count(*) as letters from {{ source('app', 'returned_letters') }} group by 1, 2, 3;

-- model orphans
{{ config(materialized='waltally') }}
select l.service_id, l.reported_on, sum(l.letters) as letters
from {{ ref('letters') }} as l left join {{ ref('message') }} as m on m.id = l.message_id left join {{ ref('old_message') }} as h on h.id = l.message_id
where m.id is null and h.id is null
group by 1, 2;

-- reads
select coalesce(sum(letters), 0) as count
from {{ ref('orphans') }} where service_id = '00000000-0000-0000-0000-000000000001' and reported_on = '2026-11-25';

-- values
-- service_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
-- reported_on: '2026-11-25' | '2026-11-25' | '2026-11-24'
-- message_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000005' | '00000000-0000-0000-0000-000000000040' | '00000000-0000-0000-0000-000000000099'
