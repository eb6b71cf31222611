-- Mastodon (mastodon/mastodon)
-- tables
create table accounts (id bigint primary key, domain text);
create table posts (id bigint primary key, account_id bigint not null references accounts);
create table post_tags (post_id bigint references posts, tag_id bigint, primary key (post_id, tag_id));

-- query
select a.domain, count(*) as uses
from posts as p join accounts as a on a.id = p.account_id join post_tags as t on t.post_id = p.id
where t.tag_id = 7 /* :tag */ and p.id between 115000000000000000 /* :from */ and 115500000000000000 /* :to */
group by a.domain order by count(*) desc limit 10;

-- values
-- tag_id: 7 | 7 | 8
-- posts.id: 114999999999999999 | 115000000000000000 | 115000000000000077 | 115200000000000077 | 115499999999999999 | 115500000000000001
-- post_id: 114999999999999999 | 115000000000000000 | 115000000000000077 | 115200000000000077 | 115499999999999999 | 115500000000000001
