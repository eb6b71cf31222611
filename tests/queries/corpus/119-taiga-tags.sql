-- Taiga (taigaio/taiga-back)
-- tables
create table epics (id integer primary key, project_id integer not null, tags text[]);

-- query
select tag, count(tag) as epics from (select unnest(tags) as tag from epics where project_id = 1 /* :project */) as t group by tag order by tag;

-- model epics_by_tag
{{ config(materialized='waltally') }}
select project_id, tag, count(tag) as epics from (select project_id, unnest(tags) as tag from {{ source('app', 'epics') }}) as t group by 1, 2;

-- reads
select tag, epics from {{ ref('epics_by_tag') }} where project_id = 1 order by tag;
