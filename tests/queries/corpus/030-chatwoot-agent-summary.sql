-- Chatwoot (chatwoot/chatwoot)
-- tables
create table report_events (id bigint primary key, account_id bigint not null, user_id bigint, name text not null, value double precision,
    created_at timestamp not null);

-- query
select user_id, count(case when name = 'conversation_resolved' then 1 end) as resolved,
    avg(case when name = 'conversation_resolved' then value end) as resolution_time,
    avg(case when name = 'first_response' then value end) as first_response_time,
    avg(case when name = 'reply_time' then value end) as reply_time
from report_events
where account_id = 1 /* :account */ and created_at >= '2026-11-01' /* :from */ and created_at < '2026-11-25' /* :to */
group by user_id;

-- values
-- name: 'conversation_resolved' | 'first_response' | 'reply_time' | 'other'
-- value: 2.5 | null
