-- Mastodon (mastodon/mastodon)
-- tables
create table accounts (id bigint primary key, domain text);
create table domain_blocks (id bigint primary key, domain text not null);
create table domain_allows (id bigint primary key, domain text not null);

-- query
with counts as (select domain, count(*) as accounts from accounts where domain is not null group by domain)
select domain, accounts from counts
union select b.domain, coalesce(c.accounts, 0) from domain_blocks as b left join counts as c on c.domain = b.domain
union select a.domain, coalesce(c.accounts, 0) from domain_allows as a left join counts as c on c.domain = a.domain;
