-- Spree (spree/spree)
-- tables
create table orders (id bigint primary key, store_id bigint not null, currency text not null, total numeric(10, 2) not null, completed_at timestamp);

-- query
select date(completed_at) as day, sum(total) as sales, count(*) as orders
from orders
where store_id = 1 /* :store */ and completed_at is not null and currency = 'EUR' /* :currency */
    and completed_at >= '2026-11-01' /* :from */ and completed_at < '2026-11-25' /* :to */
group by date(completed_at) order by day;

-- values
-- store_id: 1 | 1 | 2
-- currency: 'EUR' | 'EUR' | 'USD'
