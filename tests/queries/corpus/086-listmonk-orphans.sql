-- listmonk (knadh/listmonk)
-- tables
create table subscribers (id integer primary key, status text not null);
create table subscriptions (subscriber_id integer references subscribers, list_id integer, status text not null, primary key (subscriber_id, list_id));
create table campaigns (id integer primary key, status text not null, sent integer not null);

-- query
select (select count(*) from subscribers) as total, (select count(*) from subscribers where status = 'blocklisted') as blocked,
    (select count(s.id) from subscribers as s left join subscriptions as l on l.subscriber_id = s.id where l.subscriber_id is null) as orphans,
    (select jsonb_object_agg(status, n) from (select status, count(*) as n from campaigns group by status) as c) as campaigns,
    (select sum(sent) from campaigns) as messages;

-- values
-- status: 'enabled' | 'blocklisted'
-- subscriber_id: 1 | 2 | 3 | 4 | 7 | 9
