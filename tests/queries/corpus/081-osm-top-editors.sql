-- OpenStreetMap website (openstreetmap/openstreetmap-website)
-- tables
create table changesets (id bigint primary key, user_id bigint not null);
create table old_nodes (node_id bigint, version bigint, changeset_id bigint not null references changesets, at timestamp not null, primary key (node_id, version));

-- query
select c.user_id, count(*) as nodes
from old_nodes as n join changesets as c on c.id = n.changeset_id
where n.at >= current_date - 7
group by c.user_id order by nodes desc, c.user_id limit 60;

-- values
-- node_id: 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8
-- version: 1 | 2 | 3 | 4 | 5
