-- Cal.com (calcom/cal.com)
-- tables
create table bookings (id integer primary key, team_id integer, status text not null, host_absent boolean, ends_at timestamp not null, created_at timestamp not null);
create table guests (id integer primary key, booking_id integer references bookings, absent boolean);

-- query
with b as (
    select date(created_at at time zone 'UTC' at time zone 'Europe/Berlin' /* :zone */) as day,
        case when status = 'cancelled' then status when ends_at < now() then 'completed' else 'uncompleted' end as state,
        coalesce(host_absent, false) as host_absent, count(*) as bookings
    from bookings where team_id = 1 /* :team */ group by 1, 2, 3
), g as (
    select date(b.created_at at time zone 'UTC' at time zone 'Europe/Berlin' /* :zone */) as day,
        case when b.status = 'cancelled' then b.status when b.ends_at < now() then 'completed' else 'uncompleted' end as state,
        coalesce(b.host_absent, false) as host_absent, count(case when a.absent then 1 end) as guests_absent
    from bookings as b join guests as a on a.booking_id = b.id where b.team_id = 1 /* :team */ group by 1, 2, 3
)
select b.day, b.state, b.host_absent, b.bookings, coalesce(g.guests_absent, 0) as guests_absent
from b left join g using (day, state, host_absent) order by b.day;

-- values
-- team_id: 1 | 1 | 2
-- status: 'cancelled' | 'accepted' | 'accepted'
-- created_at: '2026-10-24 22:30' | '2026-10-25 01:30' | '2026-10-26 23:15' | '2026-10-26 22:59'
-- ends_at: now()::timestamp - interval '1 day' | now()::timestamp + interval '1 day'
