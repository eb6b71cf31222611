-- Taiga (taigaio/taiga-back)
-- tables
create table users (id integer primary key, is_active boolean not null, is_system boolean not null, joined_at timestamptz not null);

-- query
select 'week' as what, date_trunc('week', joined_at at time zone 'UTC')::date as day, (sum(count(*)) over (order by date_trunc('week', joined_at at time zone 'UTC')))::numeric as value
from users where is_active and not is_system group by date_trunc('week', joined_at at time zone 'UTC')
union all
select 'working days', null, count(*) / 5.0 from users
where is_active and not is_system and (joined_at at time zone 'UTC')::date between '2026-11-17' and '2026-11-24'
    and extract(isodow from joined_at at time zone 'UTC') < 6;
