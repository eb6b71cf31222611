-- Chatwoot (chatwoot/chatwoot)
-- tables
create table conversations (id bigint primary key, account_id bigint not null, created_at timestamp not null);
create table tags (id integer primary key, name text not null);
create table taggings (id integer primary key, tag_id integer not null, taggable_id bigint not null, taggable_kind text not null, context text not null);
create table report_events (id bigint primary key, conversation_id bigint, name text not null, value double precision);

-- query
select t.name, avg(e.value) as seconds
from report_events as e join conversations as c on c.id = e.conversation_id
join taggings as g on g.taggable_id = c.id join tags as t on t.id = g.tag_id
where e.name = 'first_response' and c.account_id = 1 /* :account */ and c.created_at >= '2026-11-01' /* :from */
    and g.taggable_kind = 'Conversation' and g.context = 'labels'
group by t.name order by t.name;

-- model first_responses
{{ config(materialized='waltally') }}
select conversation_id, sum(value::text::numeric) as seconds, count(value) as answers, count(*) as events from {{ source('app', 'report_events') }} where name = 'first_response' group by 1;

-- model talks
{{ config(materialized='waltally') }}
select id, account_id, created_at::date as day from {{ source('app', 'conversations') }};

-- model labellings
{{ config(materialized='waltally') }}
select id, tag_id, taggable_id from {{ source('app', 'taggings') }} where taggable_kind = 'Conversation' and context = 'labels';

-- model labels
{{ config(materialized='waltally') }}
select id, name from {{ source('app', 'tags') }};

-- model answers_by_label
{{ config(materialized='waltally') }}
select c.account_id, c.day, t.name, sum(e.seconds) as seconds, sum(e.answers) as answers
from {{ ref('first_responses') }} as e join {{ ref('talks') }} as c on c.id = e.conversation_id
join {{ ref('labellings') }} as g on g.taggable_id = c.id join {{ ref('labels') }} as t on t.id = g.tag_id
group by 1, 2, 3;

-- reads
select name, sum(seconds)::double precision / nullif(sum(answers), 0)::double precision as seconds
from {{ ref('answers_by_label') }} where account_id = 1 and day >= '2026-11-01' group by name order by name;

-- values
-- report_events.name: 'first_response' | 'first_response' | 'resolved'
-- taggable_kind: 'Conversation' | 'Conversation' | 'Contact'
-- context: 'labels' | 'labels' | 'other'
-- account_id: 1 | 1 | 2
