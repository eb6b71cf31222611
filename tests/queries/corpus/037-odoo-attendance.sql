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

-- model attended
{{ config(materialized='waltally') }}
select employee_id, came_at, sum(worked_hours::text::numeric) as worked, count(*) as attendances from {{ source('app', 'attendances') }} group by 1, 2;

-- model staff
{{ config(materialized='waltally') }}
select id, department_id, calendar_id from {{ source('app', 'employees') }};

-- model zones
{{ config(materialized='waltally') }}
select id, zone from {{ source('app', 'calendars') }};

-- model days_of_staff
{{ config(materialized='waltally') }}
select a.employee_id, (a.came_at at time zone 'UTC' at time zone c.zone)::date as day, e.department_id, sum(a.worked) as worked, sum(a.attendances) as attendances
from {{ ref('attended') }} as a join {{ ref('staff') }} as e on e.id = a.employee_id join {{ ref('zones') }} as c on c.id = e.calendar_id
group by 1, 2, 3;

-- model hours_over
{{ config(materialized='waltally') }}
select id, employee_id, day, hours::text::numeric as hours from {{ source('app', 'overtimes') }} where not is_adjustment;

-- model hours_by_department
{{ config(materialized='waltally') }}
select d.department_id, d.day, sum(d.worked) as worked, sum(coalesce(o.hours, 0)) as overtime
from {{ ref('days_of_staff') }} as d left join {{ ref('hours_over') }} as o on o.employee_id = d.employee_id and o.day = d.day
group by 1, 2;

-- reads
select department_id, day, worked::double precision as worked, overtime::double precision as overtime from {{ ref('hours_by_department') }};

-- values
-- zone: 'Europe/Berlin' | 'UTC' | 'Europe/Lisbon'
-- calendars.id: 1 | 2 | 3
-- calendar_id: 1 | 2 | 3
-- employees.id: 1 | 2 | 3 | 4
-- came_at: '2026-11-02 08:00' | '2026-11-02 13:00' | '2026-11-03 09:00' | '2026-07-01 22:30'
-- overtimes.day: '2026-11-02' | '2026-11-03' | '2026-11-04'
-- is_adjustment: false | false | true
