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

-- model agents_by_day
{{ config(materialized='waltally', timezone='UTC') }}
select account_id, user_id, created_at::date as day, count(case when name = 'conversation_resolved' then 1 end) as resolved,
    sum(case when name = 'conversation_resolved' then value::text::numeric end) as resolution_seconds,
    count(case when name = 'conversation_resolved' then value end) as resolutions,
    sum(case when name = 'first_response' then value::text::numeric end) as first_response_seconds,
    count(case when name = 'first_response' then value end) as first_responses,
    sum(case when name = 'reply_time' then value::text::numeric end) as reply_seconds,
    count(case when name = 'reply_time' then value end) as replies
from {{ source('app', 'report_events') }}
group by 1, 2, 3;

-- reads
select user_id, sum(resolved) as resolved, sum(resolution_seconds)::float / nullif(sum(resolutions), 0) as resolution_time,
    sum(first_response_seconds)::float / nullif(sum(first_responses), 0) as first_response_time,
    sum(reply_seconds)::float / nullif(sum(replies), 0) as reply_time
from {{ ref('agents_by_day') }}
where account_id = 1 and day >= '2026-11-01' and day < '2026-11-25'
group by user_id;

-- values
-- name: 'conversation_resolved' | 'first_response' | 'reply_time' | 'other'
