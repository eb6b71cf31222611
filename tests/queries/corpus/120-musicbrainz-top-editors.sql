-- MusicBrainz Server (metabrainz/musicbrainz-server)
-- tables
create table editors (id integer primary key, name text not null, rights integer not null);
create table edits (id integer primary key, editor_id integer not null references editors, status smallint not null, opened_at timestamptz not null);

-- query
select e.editor_id, count(e.id) as edits
from edits as e join editors as p on p.id = e.editor_id
where e.status in (1, 2) and e.opened_at >= date_trunc('day', now() at time zone 'UTC') at time zone 'UTC' - interval '7 days' and p.rights & 2 = 0
group by e.editor_id, p.name order by count(e.id) desc, p.name limit 25;

-- values
-- editors.id: 1 | 2 | 3 | 4
