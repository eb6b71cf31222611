-- Lemmy (LemmyNet/lemmy)
-- tables
create table people (id integer primary key, local boolean not null);
create table follows (person_id integer references people, community_id integer, followed_at timestamptz, primary key (person_id, community_id));

-- query
select f.community_id, count(*) as subscribers, count(*) filter (where p.local) as local_subscribers
from follows as f join people as p on p.id = f.person_id
where f.followed_at is not null group by f.community_id;

-- values
-- followed_at: null | '2026-11-01' | '2026-11-02'
