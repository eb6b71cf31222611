-- Lago (getlago/lago-api)
-- tables
create table invoices (id uuid primary key, organisation_id uuid not null, issued_on date not null, currency text not null, payment_status integer not null,
    status integer not null, self_billed boolean not null, dispute_lost_at timestamp, total_cents bigint not null);

-- query
select m.month::date, i.payment_status, i.currency, coalesce(i.invoices, 0) as invoices, coalesce(i.cents, 0) as cents
from generate_series('2026-01-01'::timestamp, '2026-11-01', interval '1 month') as m (month)
left join (
    select date_trunc('month', issued_on) as month, currency,
        case when payment_status = 0 then 'pending' when payment_status = 1 then 'succeeded' when payment_status = 2 then 'failed' end as payment_status,
        count(*) as invoices, sum(total_cents) as cents
    from invoices
    where organisation_id = '00000000-0000-0000-0000-000000000001' /* :organisation */ and self_billed is false and status = 1 and dispute_lost_at is null
    group by 1, 2, 3
) as i on i.month = m.month and i.payment_status is not null
order by 1, 2, 3;

-- values
-- organisation_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
-- payment_status: 0 | 1 | 2 | 3
-- status: 1 | 1 | 2
-- self_billed: false | false | true
-- dispute_lost_at: null | null | '2026-11-01'
-- issued_on: '2025-12-31' | '2026-01-01' | '2026-01-31' | '2026-11-30'
