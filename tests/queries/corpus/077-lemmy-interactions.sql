-- Lemmy (LemmyNet/lemmy)
-- tables
create table posts (id integer primary key, community_id integer not null, comments bigint not null, upvotes bigint not null, downvotes bigint not null,
    published_at timestamptz not null);

-- query
select community_id, coalesce(sum(comments + upvotes + downvotes), 0) as interactions
from posts where published_at >= (current_date - 30)::timestamp at time zone 'UTC' group by community_id;
