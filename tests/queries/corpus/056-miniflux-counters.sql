-- Miniflux (miniflux/v2)
-- tables
create table entries (id bigint primary key, user_id bigint not null, feed_id bigint not null, status text not null);

-- query
select feed_id, status, count(*) as entries from entries
where user_id = 1 /* :user */ and status in ('read', 'unread') group by feed_id, status;

-- model entries_by_feed
{{ config(materialized='waltally') }}
select user_id, feed_id, status, count(*) as entries from {{ source('app', 'entries') }} group by 1, 2, 3;

-- reads
select feed_id, status, entries from {{ ref('entries_by_feed') }} where user_id = 1 and status in ('read', 'unread');

-- values
-- user_id: 1 | 2
-- status: 'read' | 'unread' | 'removed'
