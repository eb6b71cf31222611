-- Lemmy (LemmyNet/lemmy)
-- tables
create table people (id integer primary key, local boolean not null, is_bot boolean not null);
create table posts (id integer primary key, creator_id integer not null, published_at timestamptz not null);
create table comments (id integer primary key, creator_id integer not null, published_at timestamptz not null);
create table post_actions (person_id integer, post_id integer, voted_at timestamptz, primary key (person_id, post_id));

-- query
select count(*) from (
    select c.creator_id from comments as c join people as p on p.id = c.creator_id
    where c.published_at > now() - interval '1 month' and p.local and not p.is_bot
    union select o.creator_id from posts as o join people as p on p.id = o.creator_id
    where o.published_at > now() - interval '1 month' and p.local and not p.is_bot
    union select a.person_id from post_actions as a join people as p on p.id = a.person_id
    where a.voted_at > now() - interval '1 month' and p.local and not p.is_bot
) as u;

-- model writers
{{ config(materialized='waltally') }}
select creator_id, (published_at at time zone 'UTC')::date as day, count(*) as texts
from (select creator_id, published_at from {{ source('app', 'posts') }} union all select creator_id, published_at from {{ source('app', 'comments') }}) as t group by 1, 2;

-- model voters
{{ config(materialized='waltally') }}
select person_id, (voted_at at time zone 'UTC')::date as day, count(*) as votes from {{ source('app', 'post_actions') }} group by 1, 2;

-- model local_people
{{ config(materialized='waltally') }}
select id from {{ source('app', 'people') }} where local and not is_bot;

-- model active_days
{{ config(materialized='waltally') }}
select person_id, day, count(*) as times
from (
    select w.creator_id as person_id, w.day from {{ ref('writers') }} as w join {{ ref('local_people') }} as p on p.id = w.creator_id
    union all select v.person_id, v.day from {{ ref('voters') }} as v join {{ ref('local_people') }} as p on p.id = v.person_id where v.day is not null
) as a
group by 1, 2;

-- model last_days
{{ config(materialized='waltally') }}
select person_id, max(day) as last_day from {{ ref('active_days') }} group by 1;

-- model people_by_last_day
{{ config(materialized='waltally') }}
select last_day, count(*) as people from {{ ref('last_days') }} group by 1;

-- reads
select coalesce(sum(people), 0) as count from {{ ref('people_by_last_day') }} where last_day > (now() at time zone 'UTC')::date - interval '1 month';

-- values
-- local: true | true | false
-- is_bot: false | false | true
-- published_at: now() | now() - interval '20 days' | now() - interval '40 days' | now() - interval '40 days'
-- voted_at: now() - interval '3 days' | now() - interval '50 days' | now() - interval '50 days' | null
