-- FreshRSS (FreshRSS/FreshRSS)
-- tables
create table entries (id bigint primary key, feed_id integer not null, published_unix bigint not null);

-- query
select extract(hour from to_timestamp(published_unix)) as hour, count(*) as entries
from entries where feed_id = 1 /* :feed */ group by hour order by hour;

-- values
-- published_unix: 0 | 3599 | 3600 | 86399 | 1764111600
