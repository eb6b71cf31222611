-- Maybe (maybe-finance/maybe)
-- tables
create table accounts (id uuid primary key, family_id uuid not null);
create table transactions (id uuid primary key, category_id uuid, kind text not null);
create table entries (id uuid primary key, account_id uuid not null references accounts, item_id uuid not null, item_kind text not null, day date not null,
    amount numeric(19, 4) not null, currency text not null, excluded boolean not null);
create table rates (id uuid primary key, from_currency text not null, to_currency text not null, day date not null, rate numeric not null, unique (from_currency, to_currency, day));

-- query
select category_id, kind, abs(percentile_cont(0.5) within group (order by total)) as median, abs(avg(total)) as mean
from (
    select t.category_id, date_trunc('month', e.day) as month, case when e.amount < 0 then 'income' else 'expense' end as kind,
        sum(e.amount * coalesce(r.rate, 1)) as total
    from transactions as t join entries as e on e.item_id = t.id and e.item_kind = 'Transaction' join accounts as a on a.id = e.account_id
    left join rates as r on r.day = e.day and r.from_currency = e.currency and r.to_currency = 'EUR' /* :currency */
    where a.family_id = '00000000-0000-0000-0000-000000000001' /* :family */ and t.kind not in ('funds_movement', 'one_time', 'cc_payment') and not e.excluded
    group by 1, 2, 3
) as m
group by category_id, kind;

-- values
-- family_id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002'
-- day: '2026-10-31' | '2026-11-01' | '2026-12-05'
-- item_kind: 'Transaction' | 'Transaction' | 'Trade'
-- transactions.kind: 'standard' | 'standard' | 'one_time'
-- excluded: false | false | true
-- currency: 'EUR' | 'USD' | 'CHF'
-- from_currency: 'USD' | 'CHF'
-- to_currency: 'EUR' | 'EUR' | 'GBP'
-- rate: 0.5 | 1.25
-- transactions.id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002' | '00000000-0000-0000-0000-000000000003' | '00000000-0000-0000-0000-000000000004'
-- accounts.id: '00000000-0000-0000-0000-000000000001' | '00000000-0000-0000-0000-000000000002' | '00000000-0000-0000-0000-000000000003' | '00000000-0000-0000-0000-000000000004'
