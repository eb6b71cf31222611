-- Odoo (odoo/odoo)
-- tables
create table calendars (id integer primary key, zone text not null);
create table employees (id integer primary key, department_id integer, calendar_id integer references calendars);
create table attendances (id integer primary key, employee_id integer not null references employees, came_at timestamp not null, worked_hours double precision);
create table overtimes (id integer primary key, employee_id integer not null, day date not null, is_adjustment boolean not null, hours double precision,
    unique (employee_id, day, is_adjustment));

-- query
select e.department_id, a.day, sum(a.worked_hours) as worked, sum(coalesce(o.hours, 0)) as overtime
from (
    select t.id, t.employee_id, t.worked_hours, (t.came_at at time zone 'UTC' at time zone c.zone)::date as day,
        row_number() over (partition by t.employee_id, t.came_at::date) as number
    from attendances as t join employees as m on m.id = t.employee_id join calendars as c on c.id = m.calendar_id
) as a join employees as e on e.id = a.employee_id
left join overtimes as o on a.number = 1 and o.employee_id = a.employee_id and o.day = a.day and not o.is_adjustment
group by 1, 2;

-- values
-- zone: 'Europe/Berlin' | 'UTC' | 'Europe/Lisbon'
-- calendars.id: 1 | 2 | 3
-- calendar_id: 1 | 2 | 3
-- employees.id: 1 | 2 | 3 | 4
-- came_at: '2026-11-02 08:00' | '2026-11-02 13:00' | '2026-11-03 09:00' | '2026-07-01 22:30'
-- overtimes.day: '2026-11-02' | '2026-11-03' | '2026-11-04'
-- is_adjustment: false | false | true
