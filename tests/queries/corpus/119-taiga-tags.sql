-- Taiga (taigaio/taiga-back)
-- tables
create table epics (id integer primary key, project_id integer not null, tags text[]);

-- query
select tag, count(tag) as epics from (select unnest(tags) as tag from epics where project_id = 1 /* :project */) as t group by tag order by tag;
