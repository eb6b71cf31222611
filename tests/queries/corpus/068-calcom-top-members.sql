-- Cal.com (calcom/cal.com)
-- tables
create table bookings (id integer primary key, user_id integer, team_id integer, is_team boolean not null, status text not null, created_at timestamp not null);

-- query
select user_id, count(id) as bookings
from bookings
where ((team_id = 1 /* :team */ and is_team) or (user_id in (1, 2, 3) /* :members */ and not is_team)) and user_id is not null and status = 'accepted'
    and created_at >= '2026-11-01' /* :from */ and created_at < '2026-11-25' /* :to */
group by user_id order by bookings desc, user_id limit 10;

-- values
-- status: 'accepted' | 'accepted' | 'cancelled'
