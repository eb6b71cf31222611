-- Misskey (misskey-dev/misskey)
-- tables
create table servers (id text primary key, host text not null unique, suspended boolean not null);
create table follows (id text primary key, follower_host text, followee_host text);

-- query
select count(distinct f.followee_host) as followed,
    count(distinct f.followee_host) filter (where f.followee_host in (select follower_host from follows where follower_host is not null)) as both
from follows as f
where f.followee_host is not null and f.followee_host not in (select host from servers where suspended);

-- values
-- host: 'a' | 'b' | 'c' | 'd' | 'e' | 'f'
-- follower_host: 'a' | 'b' | 'c' | 'd' | 'e' | 'f' | null
-- followee_host: 'a' | 'b' | 'c' | 'd' | 'e' | 'f' | null
