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
