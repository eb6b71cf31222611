-- Miniflux (miniflux/v2)
-- tables
create table entries (id bigint primary key, user_id bigint not null, feed_id bigint not null, status text not null);

-- query
select feed_id, status, count(*) as entries from entries
where user_id = 1 /* :user */ and status in ('read', 'unread') group by feed_id, status;

-- values
-- user_id: 1 | 2
-- status: 'read' | 'unread' | 'removed'
