-- Loomio (loomio/loomio)
-- tables
create table ballots (id bigint primary key, poll_id bigint not null, participant_id bigint, latest boolean not null, revoked_at timestamp, cast_at timestamp);

-- query
select poll_id, count(*) as voters, count(*) filter (where cast_at is null) as undecided
from ballots where latest and revoked_at is null group by poll_id;

-- values
-- revoked_at: null | null | '2026-11-01'
