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

-- model post_accounts
{{ config(materialized='waltally') }}
select id, account_id from {{ source('app', 'posts') }};

-- model account_domains
{{ config(materialized='waltally') }}
select id, domain from {{ source('app', 'accounts') }};

-- model tagged
{{ config(materialized='waltally') }}
select post_id, tag_id from {{ source('app', 'post_tags') }};

-- model uses
{{ config(materialized='waltally') }}
select t.tag_id, a.domain, p.id / 1000000000000 as four_hours, count(*) as uses
from {{ ref('post_accounts') }} as p join {{ ref('account_domains') }} as a on a.id = p.account_id join {{ ref('tagged') }} as t on t.post_id = p.id
group by 1, 2, 3;

-- reads
select domain, sum(uses) as uses from {{ ref('uses') }}
where tag_id = 7 and four_hours between 115000 and 115499
group by domain order by sum(uses) desc limit 10;

-- values
-- tag_id: 7 | 7 | 8
-- posts.id: 114999999999999999 | 115000000000000000 | 115000000000000077 | 115200000000000077 | 115499999999999999 | 115500000000000001
-- post_id: 114999999999999999 | 115000000000000000 | 115000000000000077 | 115200000000000077 | 115499999999999999 | 115500000000000001
