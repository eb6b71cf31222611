-- Mattermost (mattermost/mattermost)
-- tables
create table channels (id text primary key, team_id text not null);
create table posts (id text primary key, channel_id text not null, created_ms bigint not null);

-- query
select to_timestamp(p.created_ms / 1000)::date as day, count(*) as posts, c.team_id
from posts as p join channels as c on c.id = p.channel_id
group by day, c.team_id;

-- model posts_by_day
{{ config(materialized='waltally', timezone='UTC') }}
select to_timestamp(created_ms / 1000)::date as day, channel_id, count(*) as posts from {{ source('app', 'posts') }} group by 1, 2;

-- model channel_teams
{{ config(materialized='waltally') }}
select id, team_id from {{ source('app', 'channels') }};

-- reads
select p.day, sum(p.posts) as posts, c.team_id
from {{ ref('posts_by_day') }} as p join {{ ref('channel_teams') }} as c on c.id = p.channel_id
group by p.day, c.team_id;

-- values
-- created_ms: 0 | 86399999 | 86400000 | 1764111600000 | 1764115200000
