-- MusicBrainz Server (metabrainz/musicbrainz-server)
-- tables
create table release_statuses (id integer primary key, name text not null);
create table releases (id integer primary key, status_id integer references release_statuses);
create table covers (id bigint primary key, release_id integer not null references releases);

-- query
select coalesce(s.name, 'null') as status, count(distinct c.release_id) as releases
from covers as c join releases as r on r.id = c.release_id full outer join release_statuses as s on s.id = r.status_id
group by coalesce(s.name, 'null');
