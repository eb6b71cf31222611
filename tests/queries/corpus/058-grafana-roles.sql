-- Grafana (grafana/grafana)
-- tables
create table users (id bigint primary key, seen_at timestamp);
create table memberships (id bigint primary key, organisation_id bigint not null, user_id bigint not null references users, role text not null);

-- query
select bits, active, count(*) as users
from (
    select m.user_id, u.seen_at > now() - interval '30 days' as active, sum(m.bit) as bits
    from (select user_id, case role when 'admin' then 4 when 'editor' then 2 else 1 end as bit from memberships group by user_id, role) as m
    join users as u on u.id = m.user_id
    group by m.user_id, u.seen_at
) as r
group by bits, active;

-- values
-- role: 'admin' | 'editor' | 'viewer'
