-- Discourse (discourse/discourse)
-- tables
create table users (id integer primary key, name text not null);
create table posts (id integer primary key, user_id integer not null);
create table actions (id integer primary key, user_id integer not null, kind integer not null, post_id integer, created_at timestamp not null);

-- query
select p.user_id, u.name, count(distinct a.user_id) as people
from actions as a join posts as p on p.id = a.post_id join users as u on u.id = p.user_id
where a.created_at::date between '2026-11-01' /* :from */ and '2026-11-25' /* :to */ and a.kind = 1 and p.user_id > 0
group by p.user_id, u.name order by people desc limit 10;

-- values
-- kind: 1 | 1 | 2
