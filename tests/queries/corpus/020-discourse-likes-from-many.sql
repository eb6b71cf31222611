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

-- model likes
{{ config(materialized='waltally') }}
select post_id, user_id as liker_id, created_at::date as day, count(*) as likes from {{ source('app', 'actions') }} where kind = 1 group by 1, 2, 3;

-- model post_authors
{{ config(materialized='waltally') }}
select id, user_id from {{ source('app', 'posts') }} where user_id > 0;

-- model likers
{{ config(materialized='waltally') }}
select p.user_id, l.liker_id, l.day, sum(l.likes) as likes from {{ ref('likes') }} as l join {{ ref('post_authors') }} as p on p.id = l.post_id group by 1, 2, 3;

-- model user_names
{{ config(materialized='waltally') }}
select id, name from {{ source('app', 'users') }};

-- reads
select l.user_id, u.name, count(distinct l.liker_id) as people
from {{ ref('likers') }} as l join {{ ref('user_names') }} as u on u.id = l.user_id
where l.day between '2026-11-01' and '2026-11-25'
group by l.user_id, u.name order by people desc limit 10;

-- values
-- kind: 1 | 1 | 2
