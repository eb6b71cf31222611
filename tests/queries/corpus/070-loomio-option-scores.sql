-- Loomio (loomio/loomio)
-- tables
create table ballots (id bigint primary key, poll_id bigint not null, latest boolean not null, revoked_at timestamp);
create table choices (id bigint primary key, ballot_id bigint not null references ballots, option_id bigint not null, score integer not null);

-- query
select c.option_id, sum(c.score) as score, count(*) as voters
from choices as c join ballots as b on b.id = c.ballot_id
where b.latest and b.revoked_at is null
group by c.option_id;

-- values
-- revoked_at: null | null | '2026-11-01'
-- latest: true | true | false
