-- Lago (getlago/lago-api)
-- tables
create table invoices (id uuid primary key, organisation_id uuid not null, due_on date not null, currency text not null, overdue boolean not null,
    total_cents bigint not null, paid_cents bigint not null);
create table credit_notes (id uuid primary key, invoice_id uuid not null references invoices, status integer not null, offset_cents bigint not null);

-- query
select date_trunc('month', i.due_on)::date as month, i.currency, sum(i.total_cents - i.paid_cents - coalesce(n.offset_cents, 0)) as cents, array_agg(distinct i.id) as ids
from invoices as i
left join (select invoice_id, sum(offset_cents) as offset_cents from credit_notes where status = 1 group by invoice_id) as n on n.invoice_id = i.id
where i.organisation_id = '00000000-0000-0000-0000-000000000001' /* :organisation */ and i.overdue
group by 1, 2 order by 1;

-- model overdue_invoices
{{ config(materialized='waltally') }}
select id, organisation_id, date_trunc('month', due_on::timestamp)::date as month, currency, total_cents - paid_cents as cents from {{ source('app', 'invoices') }} where overdue;

-- model offsets_by_invoice
{{ config(materialized='waltally') }}
select invoice_id, sum(offset_cents) as offset_cents from {{ source('app', 'credit_notes') }} where status = 1 group by 1;

-- model overdue
{{ config(materialized='waltally') }}
select i.id, i.organisation_id, i.month, i.currency, sum(i.cents - coalesce(n.offset_cents, 0)) as cents
from {{ ref('overdue_invoices') }} as i left join {{ ref('offsets_by_invoice') }} as n on n.invoice_id = i.id
group by 1, 2, 3, 4;

-- model overdue_by_month
{{ config(materialized='waltally') }}
select organisation_id, month, currency, sum(cents) as cents, array_agg(distinct id) as ids from {{ ref('overdue') }} group by 1, 2, 3;

-- reads
select month, currency, cents, ids from {{ ref('overdue_by_month') }} where organisation_id = '00000000-0000-0000-0000-000000000001' order by 1;

-- values
-- organisation_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
-- due_on: '2026-10-31' | '2026-11-01' | '2026-11-30'
-- status: 1 | 1 | 0
-- overdue: true | true | false
