-- Open Food Network (openfoodfoundation/openfoodnetwork)
-- tables
create table customers (id bigint primary key, shop_id bigint not null, email text not null);
create table orders (id bigint primary key, customer_id bigint references customers, state text not null, total numeric(10, 2) not null, paid numeric(10, 2) not null);

-- query
select c.id, c.email, sum(case when o.state in ('canceled', 'returned') then o.paid when o.state is not null then o.paid - o.total else 0 end) as balance
from customers as c left join orders as o on o.customer_id = c.id and o.state in ('complete', 'canceled', 'resumed', 'awaiting_return', 'returned')
where c.shop_id = 1 /* :shop */
group by c.id, c.email;

-- values
-- shop_id: 1 | 1 | 2
-- state: 'complete' | 'canceled' | 'cart'
