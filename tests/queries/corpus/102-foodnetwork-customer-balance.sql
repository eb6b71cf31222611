-- Open Food Network (openfoodfoundation/openfoodnetwork)
-- tables
create table customers (id bigint primary key, shop_id bigint not null, email text not null);
create table orders (id bigint primary key, customer_id bigint references customers, state text not null, total numeric(10, 2) not null, paid numeric(10, 2) not null);

-- query
select c.id, c.email, sum(case when o.state in ('canceled', 'returned') then o.paid when o.state is not null then o.paid - o.total else 0 end) as balance
from customers as c left join orders as o on o.customer_id = c.id and o.state in ('complete', 'canceled', 'resumed', 'awaiting_return', 'returned')
where c.shop_id = 1 /* :shop */
group by c.id, c.email;

-- model order_balances
{{ config(materialized='waltally') }}
select customer_id, sum(case when state in ('canceled', 'returned') then paid else paid - total end) as balance
from {{ source('app', 'orders') }}
where state in ('complete', 'canceled', 'resumed', 'awaiting_return', 'returned')
group by 1;

-- model customer_emails
{{ config(materialized='waltally') }}
select id, shop_id, email from {{ source('app', 'customers') }};

-- reads
select c.id, c.email, coalesce(o.balance, 0) as balance
from {{ ref('customer_emails') }} as c left join {{ ref('order_balances') }} as o on o.customer_id = c.id
where c.shop_id = 1;

-- values
-- shop_id: 1 | 1 | 2
-- state: 'complete' | 'canceled' | 'cart'
