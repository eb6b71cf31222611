-- Odoo (odoo/odoo)
-- tables
create table units (id integer primary key, factor numeric not null);
create table templates (id integer primary key, unit_id integer references units, category_id integer);
create table products (id integer primary key, template_id integer references templates);
create table orders (id integer primary key, ordered_at timestamp not null, confirmed_on date, customer_id integer, seller_id integer, state text not null);
create table lines (id integer primary key, order_id integer not null references orders, product_id integer references products, unit_id integer references units,
    quantity numeric not null, price numeric not null, discount numeric not null);

-- query
select to_char(o.ordered_at, 'YYYY-MM') as month, t.category_id, o.seller_id, o.state,
    sum(l.quantity / u.factor * u2.factor) as quantity, sum(l.quantity * l.price * (100.0 - l.discount) / 100.0) as amount,
    avg(o.confirmed_on - o.ordered_at::date) as days_to_confirm, count(*) as lines
from orders as o join lines as l on l.order_id = o.id
left join products as p on p.id = l.product_id left join templates as t on t.id = p.template_id
left join units as u on u.id = l.unit_id left join units as u2 on u2.id = t.unit_id
group by 1, 2, 3, 4;

-- values
-- factor: 1 | 2 | 0.5
-- discount: 0 | 25 | 100
-- ordered_at: '2026-10-31 23:59' | '2026-11-01' | '2026-11-07 12:00'
-- confirmed_on: null | '2026-11-08' | '2026-11-09'
-- units.id: 1 | 2
-- unit_id: 1 | 2 | null
-- state: 'sale' | 'done'
