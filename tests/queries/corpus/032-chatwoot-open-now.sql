-- Chatwoot (chatwoot/chatwoot)
-- tables
create table conversations (id bigint primary key, account_id bigint not null, status integer not null, agent_id bigint,
    first_reply_at timestamp, waiting_since timestamp);

-- query
select count(*) filter (where status = 0) as open,
    count(*) filter (where status = 0 and (first_reply_at is null or waiting_since is not null)) as unattended,
    count(*) filter (where status = 0 and agent_id is null) as unassigned, count(*) filter (where status = 2) as pending
from conversations where account_id = 1 /* :account */;

-- values
-- account_id: 1 | 2
-- status: 0 | 1 | 2
