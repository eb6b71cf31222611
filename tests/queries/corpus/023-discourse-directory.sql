-- Discourse (discourse/discourse)
-- tables
create table users (id integer primary key, active boolean not null, silenced_until timestamp);
create table topics (id integer primary key, kind text not null, visible boolean not null, deleted_at timestamp);
create table posts (id integer primary key, topic_id integer not null, kind integer not null, hidden boolean not null, deleted_at timestamp);
create table actions (id integer primary key, user_id integer not null, kind integer not null, post_id integer, topic_id integer, created_at timestamp not null);
create table topic_views (topic_id integer, user_id integer, viewed_on date, primary key (topic_id, user_id));
create table visits (id integer primary key, user_id integer not null, visited_on date not null, posts_read integer not null);

-- query
select u.id,
    sum(case when p.id is not null and t.id is not null and a.kind = 2 then 1 else 0 end) as likes_received,
    sum(case when p.id is not null and t.id is not null and a.kind = 1 then 1 else 0 end) as likes_given,
    coalesce((select count(*) from topic_views as w where w.user_id = u.id and w.viewed_on > current_date - 30), 0) as topics_entered,
    coalesce((select count(*) from visits as v where v.user_id = u.id and v.visited_on > current_date - 30), 0) as days_visited,
    coalesce((select sum(posts_read) from visits as v where v.user_id = u.id and v.visited_on > current_date - 30), 0) as posts_read,
    sum(case when t2.id is not null and a.kind = 4 then 1 else 0 end) as topics,
    sum(case when p.id is not null and t.id is not null and a.kind = 5 then 1 else 0 end) as replies
from users as u
left join actions as a on a.user_id = u.id and a.created_at > current_date - 30
left join posts as p on p.id = a.post_id and p.deleted_at is null and p.kind = 1 and not p.hidden
left join topics as t on t.id = p.topic_id and t.kind = 'regular' and t.deleted_at is null and t.visible
left join topics as t2 on t2.id = a.topic_id and t2.kind = 'regular' and t2.deleted_at is null and t2.visible
where u.active and u.silenced_until is null and u.id > 0
group by u.id;

-- model good_posts
{{ config(materialized='waltally') }}
select id, topic_id from {{ source('app', 'posts') }} where deleted_at is null and kind = 1 and not hidden;

-- model good_topics
{{ config(materialized='waltally') }}
select id from {{ source('app', 'topics') }} where kind = 'regular' and deleted_at is null and visible;

-- model actions_by_day
{{ config(materialized='waltally') }}
select user_id, kind, post_id, topic_id, created_at::date as day, count(*) as actions from {{ source('app', 'actions') }} where kind in (1, 2, 4, 5) group by 1, 2, 3, 4, 5;

-- model deeds
{{ config(materialized='waltally') }}
select a.user_id, a.day,
    sum(a.actions) filter (where a.kind = 2 and t.id is not null) as likes_received,
    sum(a.actions) filter (where a.kind = 1 and t.id is not null) as likes_given,
    sum(a.actions) filter (where a.kind = 4 and t2.id is not null) as topics,
    sum(a.actions) filter (where a.kind = 5 and t.id is not null) as replies
from {{ ref('actions_by_day') }} as a left join {{ ref('good_posts') }} as p on p.id = a.post_id
left join {{ ref('good_topics') }} as t on t.id = p.topic_id left join {{ ref('good_topics') }} as t2 on t2.id = a.topic_id
group by 1, 2;

-- model views_by_day
{{ config(materialized='waltally') }}
select user_id, viewed_on, count(*) as topics from {{ source('app', 'topic_views') }} group by 1, 2;

-- model visits_by_day
{{ config(materialized='waltally') }}
select user_id, visited_on, count(*) as days, sum(posts_read) as posts_read from {{ source('app', 'visits') }} group by 1, 2;

-- model listed_users
{{ config(materialized='waltally') }}
select id from {{ source('app', 'users') }} where active and silenced_until is null and id > 0;

-- reads
select u.id, coalesce(sum(d.likes_received), 0) as likes_received, coalesce(sum(d.likes_given), 0) as likes_given,
    coalesce((select sum(topics) from {{ ref('views_by_day') }} as w where w.user_id = u.id and w.viewed_on > current_date - 30), 0) as topics_entered,
    coalesce((select sum(days) from {{ ref('visits_by_day') }} as v where v.user_id = u.id and v.visited_on > current_date - 30), 0) as days_visited,
    coalesce((select sum(posts_read) from {{ ref('visits_by_day') }} as v where v.user_id = u.id and v.visited_on > current_date - 30), 0) as posts_read,
    coalesce(sum(d.topics), 0) as topics, coalesce(sum(d.replies), 0) as replies
from {{ ref('listed_users') }} as u left join {{ ref('deeds') }} as d on d.user_id = u.id and d.day >= current_date - 30
group by u.id;

-- values
-- actions.kind: 1 | 2 | 4 | 5 | 9
-- posts.kind: 1 | 1 | 2
-- posts.id: 1 | 2 | 3 | 4
-- topics.id: 1 | 2 | 3 | 4
-- topics.kind: 'regular' | 'regular' | 'private'
-- deleted_at: null | null | '2026-11-01'
-- silenced_until: null | null | '2026-11-01'
-- hidden: false | false | true
-- created_at: now()::timestamp - interval '3 days 1 microsecond' | now()::timestamp - interval '29 days 1 microsecond' | now()::timestamp - interval '40 days 1 microsecond'
