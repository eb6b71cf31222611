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

-- model lines_by_order
{{ config(materialized='waltally') }}
select order_id, variant_id, sum(quantity) as quantity, sum(quantity * price) as sales from {{ source('app', 'lines') }} group by 1, 2;

-- model completed_orders
{{ config(materialized='waltally') }}
select id, store_id, currency, completed_at::date as day from {{ source('app', 'orders') }} where completed_at is not null;

-- model variant_products
{{ config(materialized='waltally') }}
select id, product_id from {{ source('app', 'variants') }};

-- model products_by_day
{{ config(materialized='waltally') }}
select o.store_id, o.currency, o.day, v.product_id, sum(l.quantity) as quantity, sum(l.sales) as sales
from {{ ref('lines_by_order') }} as l join {{ ref('variant_products') }} as v on v.id = l.variant_id join {{ ref('completed_orders') }} as o on o.id = l.order_id
group by 1, 2, 3, 4;

-- reads
select product_id, sum(quantity) as quantity, sum(sales) as sales from {{ ref('products_by_day') }}
where store_id = 1 and currency = 'EUR' and day >= '2026-11-01' and day < '2026-11-25'
group by product_id order by sales desc limit 5;

-- values
-- store_id: 1 | 1 | 2
-- currency: 'EUR' | 'EUR' | 'USD'
