-- Lemmy (LemmyNet/lemmy)
-- tables
create table people (id integer primary key, local boolean not null);
create table follows (person_id integer references people, community_id integer, followed_at timestamptz, primary key (person_id, community_id));

-- query
select f.community_id, count(*) as subscribers, count(*) filter (where p.local) as local_subscribers
from follows as f join people as p on p.id = f.person_id
where f.followed_at is not null group by f.community_id;

-- model followers
{{ config(materialized='waltally') }}
select person_id, community_id from {{ source('app', 'follows') }} where followed_at is not null;

-- model locals
{{ config(materialized='waltally') }}
select id, local from {{ source('app', 'people') }};

-- model subscribers
{{ config(materialized='waltally') }}
select f.community_id, count(*) as subscribers, count(*) filter (where p.local) as local_subscribers
from {{ ref('followers') }} as f join {{ ref('locals') }} as p on p.id = f.person_id group by 1;

-- reads
select community_id, subscribers, local_subscribers from {{ ref('subscribers') }};

-- values
-- followed_at: null | '2026-11-01' | '2026-11-02'
