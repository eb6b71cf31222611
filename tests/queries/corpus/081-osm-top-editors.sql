-- OpenStreetMap website (openstreetmap/openstreetmap-website)
-- tables
create table changesets (id bigint primary key, user_id bigint not null);
create table old_nodes (node_id bigint, version bigint, changeset_id bigint not null references changesets, at timestamp not null, primary key (node_id, version));

-- query
select c.user_id, count(*) as nodes
from old_nodes as n join changesets as c on c.id = n.changeset_id
where n.at >= current_date - 7
group by c.user_id order by nodes desc, c.user_id limit 60;

-- model nodes_by_day
{{ config(materialized='waltally') }}
select changeset_id, at::date as day, count(*) as nodes from {{ source('app', 'old_nodes') }} group by 1, 2;

-- model changeset_users
{{ config(materialized='waltally') }}
select id, user_id from {{ source('app', 'changesets') }};

-- reads
select c.user_id, sum(n.nodes) as nodes
from {{ ref('nodes_by_day') }} as n join {{ ref('changeset_users') }} as c on c.id = n.changeset_id
where n.day >= current_date - 7
group by c.user_id order by nodes desc, c.user_id limit 60;

-- values
-- node_id: 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8
-- version: 1 | 2 | 3 | 4 | 5
