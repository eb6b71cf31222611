-- Mattermost (mattermost/mattermost)
-- tables
create table channels (id text primary key, team_id text not null);
create table posts (id text primary key, channel_id text not null, created_ms bigint not null);

-- query
select to_timestamp(p.created_ms / 1000)::date as day, count(*) as posts, c.team_id
from posts as p join channels as c on c.id = p.channel_id
group by day, c.team_id;

-- values
-- created_ms: 0 | 86399999 | 86400000 | 1764111600000 | 1764115200000
