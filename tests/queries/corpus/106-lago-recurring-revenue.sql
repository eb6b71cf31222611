-- Lago (getlago/lago-api)
-- tables
create table plans (id uuid primary key, in_advance boolean not null, span integer not null);
create table subscriptions (id uuid primary key, plan_id uuid not null references plans);
create table invoices (id uuid primary key, organisation_id uuid not null, issued_on date not null, status integer not null);
create table fees (id uuid primary key, invoice_id uuid references invoices, subscription_id uuid references subscriptions, kind integer not null, cents bigint not null,
    currency text not null, properties jsonb not null);

-- query
with details as (
    select f.cents, f.currency, i.issued_on, p.in_advance,
        extract(day from (f.properties ->> 'to')::timestamp - (f.properties ->> 'from')::timestamp) / 30.44 as months
    from fees as f join invoices as i on i.id = f.invoice_id join subscriptions as s on s.id = f.subscription_id join plans as p on p.id = s.plan_id
    where f.kind = 2 and i.organisation_id = '00000000-0000-0000-0000-000000000001' /* :organisation */ and i.status = 1
)
select (date_trunc('month', issued_on) + interval '1 month' * n * case when in_advance then 1 else -1 end)::date as month, currency, sum(cents / months) as cents
from details cross join lateral generate_series(0, ceil(months)::integer - 1) as n
group by 1, 2 order by 1;

-- model plan_kinds
select id, in_advance from {{ source('app', 'plans') }};

-- model subscription_plans
select id, plan_id from {{ source('app', 'subscriptions') }};

-- model final_invoices
select id, organisation_id, issued_on from {{ source('app', 'invoices') }} where status = 1;

-- model subscription_fees
select id, invoice_id, subscription_id, cents, currency,
    to_date(properties ->> 'to', 'YYYY-MM-DD') - to_date(properties ->> 'from', 'YYYY-MM-DD') as days
from {{ source('app', 'fees') }} where kind = 2;

-- model fees_by_day
select i.organisation_id, i.issued_on, p.in_advance, f.currency, f.cents, f.days, count(*) as fees
from {{ ref('subscription_fees') }} as f join {{ ref('final_invoices') }} as i on i.id = f.invoice_id
join {{ ref('subscription_plans') }} as s on s.id = f.subscription_id join {{ ref('plan_kinds') }} as p on p.id = s.plan_id
group by 1, 2, 3, 4, 5, 6;

-- reads
select (date_trunc('month', issued_on) + interval '1 month' * n * case when in_advance then 1 else -1 end)::date as month, currency, sum(fees * (cents / (days / 30.44))) as cents
from {{ ref('fees_by_day') }} cross join lateral generate_series(0, ceil(days / 30.44)::integer - 1) as n
where organisation_id = '00000000-0000-0000-0000-000000000001'
group by 1, 2 order by 1;

-- values
-- organisation_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
-- status: 1 | 1 | 0
-- kind: 2 | 2 | 1
-- properties: '{"from": "2026-01-01", "to": "2026-02-01"}' | '{"from": "2026-01-01", "to": "2026-12-31"}' | '{"from": "2026-03-15", "to": "2026-03-15"}'
