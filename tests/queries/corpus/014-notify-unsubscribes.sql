-- GOV.UK Notify (alphagov/notifications-api)
-- tables
create table reports (id uuid primary key, processed_at timestamp);
create table requests (id uuid primary key, service_id uuid not null, report_id uuid references reports, created_at timestamp not null);

-- query
select count(r.service_id) as requests, r.service_id, max(r.created_at) as latest
from requests as r left join reports as p on p.id = r.report_id
where r.service_id = '00000000-0000-0000-0000-000000000001' /* :service */
    and (r.report_id is null or (r.report_id is not null and p.processed_at is null))
group by r.service_id;

-- values
-- service_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
-- reports.id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002' | '00000000-0000-0000-0000-000000000003'
