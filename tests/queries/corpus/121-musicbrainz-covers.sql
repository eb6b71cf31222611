-- MusicBrainz Server (metabrainz/musicbrainz-server)
-- tables
create table release_statuses (id integer primary key, name text not null);
create table releases (id integer primary key, status_id integer references release_statuses);
create table covers (id bigint primary key, release_id integer not null references releases);

-- query
select coalesce(s.name, 'null') as status, count(distinct c.release_id) as releases
from covers as c join releases as r on r.id = c.release_id full outer join release_statuses as s on s.id = r.status_id
group by coalesce(s.name, 'null');

-- model covered
{{ config(materialized='waltally') }}
select release_id, count(*) as covers from {{ source('app', 'covers') }} group by 1;

-- model release_states
{{ config(materialized='waltally') }}
select id, status_id from {{ source('app', 'releases') }};

-- model covered_by_status
{{ config(materialized='waltally') }}
select r.status_id, count(*) as releases from {{ ref('covered') }} as c join {{ ref('release_states') }} as r on r.id = c.release_id group by 1;

-- model status_names
{{ config(materialized='waltally') }}
select id, name from {{ source('app', 'release_statuses') }};

-- reads
select coalesce(s.name, 'null') as status, coalesce(sum(c.releases), 0) as releases
from {{ ref('covered_by_status') }} as c full outer join {{ ref('status_names') }} as s on s.id = c.status_id
group by coalesce(s.name, 'null');
