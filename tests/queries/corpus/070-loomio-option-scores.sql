-- Loomio (loomio/loomio)
-- tables
create table ballots (id bigint primary key, poll_id bigint not null, latest boolean not null, revoked_at timestamp);
create table choices (id bigint primary key, ballot_id bigint not null references ballots, option_id bigint not null, score integer not null);

-- query
select c.option_id, sum(c.score) as score, count(*) as voters
from choices as c join ballots as b on b.id = c.ballot_id
where b.latest and b.revoked_at is null
group by c.option_id;

-- model valid_ballots
{{ config(materialized='waltally') }}
select id from {{ source('app', 'ballots') }} where latest and revoked_at is null;

-- model scores_by_ballot
{{ config(materialized='waltally') }}
select ballot_id, option_id, sum(score) as score, count(*) as voters from {{ source('app', 'choices') }} group by 1, 2;

-- model option_scores
{{ config(materialized='waltally') }}
select c.option_id, sum(c.score) as score, sum(c.voters) as voters
from {{ ref('scores_by_ballot') }} as c join {{ ref('valid_ballots') }} as b on b.id = c.ballot_id group by 1;

-- reads
select option_id, score, voters from {{ ref('option_scores') }};

-- values
-- revoked_at: null | null | '2026-11-01'
-- latest: true | true | false
