-- GOV.UK Notify (alphagov/notifications-api)
-- tables
create table allowances (service_id uuid, year_start integer, free_units integer not null, primary key (service_id, year_start));
create table billing (id bigint primary key, day date not null, service_id uuid not null, channel text not null, multiplier integer not null,
    rate numeric(8, 5) not null, fragments integer not null);

-- query
select date_trunc('month', day)::date as month, rate, sum(units) as units, sum(charged) as charged, sum(charged * rate) as cost
from (
    select b.day, b.rate, b.fragments * b.multiplier as units,
        greatest(b.fragments * b.multiplier - greatest(a.free_units - coalesce(sum(b.fragments * b.multiplier)
            over (order by b.day rows between unbounded preceding and 1 preceding), 0), 0), 0) as charged
    from billing as b join allowances as a on a.service_id = b.service_id and a.year_start = 2026 /* :year */
    where b.service_id = '00000000-0000-0000-0000-000000000001' /* :service */ and b.channel = 'sms'
        and b.day between '2026-04-01' /* :from */ and '2027-03-31' /* :to */
) as d
group by 1, 2 order by 1, 2;

-- model units_by_day
select day, service_id, channel, rate, sum(fragments * multiplier) as units from {{ source('app', 'billing') }} group by 1, 2, 3, 4;

-- model free_units
select service_id, year_start, free_units from {{ source('app', 'allowances') }};

-- reads
select date_trunc('month', day)::date as month, rate, sum(units) as units, sum(charged) as charged, sum(charged * rate) as cost
from (
    select b.day, b.rate, b.units, greatest(b.units - greatest(a.free_units - coalesce(sum(b.units)
        over (order by b.day rows between unbounded preceding and 1 preceding), 0), 0), 0) as charged
    from {{ ref('units_by_day') }} as b join {{ ref('free_units') }} as a on a.service_id = b.service_id and a.year_start = 2026
    where b.service_id = '00000000-0000-0000-0000-000000000001' and b.channel = 'sms' and b.day between '2026-04-01' and '2027-03-31'
) as d
group by 1, 2 order by 1, 2;

-- values
-- service_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
-- year_start: 2025 | 2026
-- free_units: 10 | 30
-- channel: 'sms' | 'email'
-- rate: 0.02
-- day: '2026-03-31' | '2026-04-01' | '2026-04-17' | '2026-05-03' | '2027-03-31'
