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

-- values
-- report_events.name: 'first_response' | 'first_response' | 'resolved'
-- taggable_kind: 'Conversation' | 'Conversation' | 'Contact'
-- context: 'labels' | 'labels' | 'other'
-- account_id: 1 | 1 | 2
-- value: 2.5 | null
