-- Mattermost (mattermost/mattermost)
-- tables
create table files (id text primary key, size bigint not null, deleted_ms bigint not null);

-- query
select count(*) as files, coalesce(sum(size), 0) as bytes from files where deleted_ms = 0;

-- values
-- deleted_ms: 0 | 0 | 1764111600000
