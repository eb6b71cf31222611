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

-- model subscriber
{{ config(materialized='waltally') }}
select id, status from {{ source('app', 'subscribers') }};

-- model lists_of_subscribers
{{ config(materialized='waltally') }}
select subscriber_id, count(*) as lists from {{ source('app', 'subscriptions') }} group by 1;

-- model subscribers_by_status
{{ config(materialized='waltally') }}
select s.status, count(*) as subscribers, count(*) filter (where l.subscriber_id is null) as orphans
from {{ ref('subscriber') }} as s left join {{ ref('lists_of_subscribers') }} as l on l.subscriber_id = s.id group by 1;

-- model campaigns_by_status
{{ config(materialized='waltally') }}
select status, count(*) as campaigns, sum(sent) as sent from {{ source('app', 'campaigns') }} group by 1;

-- reads
select (select coalesce(sum(subscribers), 0) from {{ ref('subscribers_by_status') }}) as total,
    (select coalesce(sum(subscribers), 0) from {{ ref('subscribers_by_status') }} where status = 'blocklisted') as blocked,
    (select coalesce(sum(orphans), 0) from {{ ref('subscribers_by_status') }}) as orphans,
    (select jsonb_object_agg(status, campaigns) from {{ ref('campaigns_by_status') }}) as campaigns, (select sum(sent) from {{ ref('campaigns_by_status') }}) as messages;

-- values
-- status: 'enabled' | 'blocklisted'
-- subscriber_id: 1 | 2 | 3 | 4 | 7 | 9
