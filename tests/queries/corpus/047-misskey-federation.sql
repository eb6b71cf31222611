-- Misskey (misskey-dev/misskey)
-- tables
create table servers (id text primary key, host text not null unique, suspended boolean not null);
create table follows (id text primary key, follower_host text, followee_host text);

-- query
select count(distinct f.followee_host) as followed,
    count(distinct f.followee_host) filter (where f.followee_host in (select follower_host from follows where follower_host is not null)) as both
from follows as f
where f.followee_host is not null and f.followee_host not in (select host from servers where suspended);

-- model follows_by_followee
{{ config(materialized='waltally') }}
select followee_host, count(*) as follows from {{ source('app', 'follows') }} where followee_host is not null group by 1;

-- model follows_by_follower
{{ config(materialized='waltally') }}
select follower_host, count(*) as follows from {{ source('app', 'follows') }} where follower_host is not null group by 1;

-- model suspended_servers
{{ config(materialized='waltally') }}
select id, host from {{ source('app', 'servers') }} where suspended;

-- reads
select count(*) as followed, count(*) filter (where followee_host in (select follower_host from {{ ref('follows_by_follower') }})) as both
from {{ ref('follows_by_followee') }}
where followee_host not in (select host from {{ ref('suspended_servers') }});

-- values
-- host: 'a' | 'b' | 'c' | 'd' | 'e' | 'f'
-- follower_host: 'a' | 'b' | 'c' | 'd' | 'e' | 'f' | null
-- followee_host: 'a' | 'b' | 'c' | 'd' | 'e' | 'f' | null
