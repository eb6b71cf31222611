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

-- values
-- organisation_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
-- due_on: '2026-10-31' | '2026-11-01' | '2026-11-30'
-- status: 1 | 1 | 0
-- overdue: true | true | false
