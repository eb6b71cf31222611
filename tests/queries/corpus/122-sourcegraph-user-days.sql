-- Sourcegraph (sourcegraph/sourcegraph-public-snapshot)
-- tables
create table event_logs (id bigint primary key, name text not null, user_id integer not null, at timestamptz not null);

-- query
select (at at time zone 'UTC')::date as day, user_id, count(*) filter (where name = 'SearchResultsQueried') as searches,
    count(*) filter (where name like '%codeintel%') as codeintel
from event_logs group by 1, 2 order by 1 desc, 2;

-- values
-- name: 'SearchResultsQueried' | 'codeintel.hover' | 'x.codeintel' | 'other'
