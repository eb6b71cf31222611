-- Decidim (decidim/decidim)
-- tables
create table components (id bigint primary key, space_id bigint not null);
create table proposals (id bigint primary key, component_id bigint not null references components, author_id bigint not null, published_at timestamp);
create table votes (id bigint primary key, proposal_id bigint not null references proposals, author_id bigint not null, created_at timestamp not null);
create table comments (id bigint primary key, space_id bigint not null, author_id bigint not null, created_at timestamp not null);

-- query
select space_id, count(distinct author_id) as people, count(distinct author_id) filter (where at >= '2026-11-25') as people_of_the_day
from (
    select c.space_id, p.author_id, p.published_at as at from proposals as p join components as c on c.id = p.component_id
    union all select c.space_id, v.author_id, v.created_at from votes as v join proposals as p on p.id = v.proposal_id join components as c on c.id = p.component_id
    union all select space_id, author_id, created_at from comments
) as a
where at < '2026-11-26' /* :day */
group by space_id;
