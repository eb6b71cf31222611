-- Spree (spree/spree)
-- tables
create table variants (id bigint primary key, product_id bigint not null);
create table orders (id bigint primary key, store_id bigint not null, currency text not null, completed_at timestamp);
create table lines (id bigint primary key, order_id bigint not null references orders, variant_id bigint not null references variants,
    quantity integer not null, price numeric(10, 2) not null);

-- query
select v.product_id, sum(l.quantity) as quantity, sum(l.quantity * l.price) as sales
from lines as l join variants as v on v.id = l.variant_id join orders as o on o.id = l.order_id
where o.store_id = 1 /* :store */ and o.currency = 'EUR' /* :currency */ and o.completed_at >= '2026-11-01' /* :from */ and o.completed_at < '2026-11-25' /* :to */
group by v.product_id order by sales desc limit 5;

-- values
-- variants.id: 1 | 2 | 3 | 4
-- orders.id: 1 | 2 | 3 | 4 | 5 | 6
-- order_id: 1 | 2 | 3 | 4 | 5 | 6
-- completed_at: '2026-10-31 23:59' | '2026-11-01' | '2026-11-07 12:00' | '2026-11-24 23:59' | null
-- store_id: 1 | 1 | 2
-- currency: 'EUR' | 'EUR' | 'USD'
