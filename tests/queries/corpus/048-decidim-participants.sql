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

-- model component_spaces
{{ config(materialized='waltally') }}
select id, space_id from {{ source('app', 'components') }};

-- model proposal_authors
{{ config(materialized='waltally') }}
select id, component_id, author_id, published_at::date as day from {{ source('app', 'proposals') }};

-- model votes_by_day
{{ config(materialized='waltally') }}
select proposal_id, author_id, created_at::date as day, count(*) as votes from {{ source('app', 'votes') }} group by 1, 2, 3;

-- model comments_by_day
{{ config(materialized='waltally') }}
select space_id, author_id, created_at::date as day, count(*) as comments from {{ source('app', 'comments') }} group by 1, 2, 3;

-- model participations
{{ config(materialized='waltally') }}
select space_id, author_id, day, count(*) as times
from (
    select c.space_id, p.author_id, p.day from {{ ref('proposal_authors') }} as p join {{ ref('component_spaces') }} as c on c.id = p.component_id
    union all select c.space_id, v.author_id, v.day from {{ ref('votes_by_day') }} as v join {{ ref('proposal_authors') }} as p on p.id = v.proposal_id join {{ ref('component_spaces') }} as c on c.id = p.component_id
    union all select space_id, author_id, day from {{ ref('comments_by_day') }}
) as a
group by 1, 2, 3;

-- reads
select space_id, count(distinct author_id) as people, count(distinct author_id) filter (where day >= '2026-11-25') as people_of_the_day
from {{ ref('participations') }} where day < '2026-11-26' group by space_id;
