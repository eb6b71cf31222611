-- FreshRSS (FreshRSS/FreshRSS)
-- tables
create table entries (id bigint primary key, feed_id integer not null, published_unix bigint not null);

-- query
select extract(hour from to_timestamp(published_unix)) as hour, count(*) as entries
from entries where feed_id = 1 /* :feed */ group by hour order by hour;

-- model entries_by_hour
{{ config(materialized='waltally', timezone='UTC') }}
select feed_id, extract(hour from to_timestamp(published_unix)) as hour, count(*) as entries from {{ source('app', 'entries') }} group by 1, 2;

-- reads
select hour, entries from {{ ref('entries_by_hour') }} where feed_id = 1 order by hour;

-- values
-- published_unix: 0 | 3599 | 3600 | 86399 | 1764111600
