-- pretix (pretix/pretix)
-- tables
create table orders (id bigint primary key, event_id bigint not null, status text not null);
create table positions (id bigint primary key, order_id bigint not null references orders, item_id bigint not null, variant_id bigint, date_id bigint);

-- query
select o.status, p.item_id, p.date_id, p.variant_id, count(*) as positions
from positions as p join orders as o on o.id = p.order_id
where o.status in ('paid', 'pending') and o.event_id = 1 /* :event */ and (p.date_id in (1, 2) /* :dates */ or p.date_id is null)
    and ((p.variant_id is null and p.item_id in (1, 2) /* :items */) or p.variant_id in (3, 4) /* :variants */)
group by o.status, p.item_id, p.date_id, p.variant_id;

-- model seats
{{ config(materialized='waltally') }}
select order_id, item_id, variant_id, date_id, count(*) as positions from {{ source('app', 'positions') }} group by 1, 2, 3, 4;

-- model order_states
{{ config(materialized='waltally') }}
select id, event_id, status from {{ source('app', 'orders') }} where status in ('paid', 'pending');

-- model sold
{{ config(materialized='waltally') }}
select o.event_id, o.status, p.item_id, p.date_id, p.variant_id, sum(p.positions) as positions
from {{ ref('seats') }} as p join {{ ref('order_states') }} as o on o.id = p.order_id group by 1, 2, 3, 4, 5;

-- reads
select status, item_id, date_id, variant_id, positions from {{ ref('sold') }}
where event_id = 1 and (date_id in (1, 2) or date_id is null) and ((variant_id is null and item_id in (1, 2)) or variant_id in (3, 4));

-- values
-- status: 'paid' | 'pending' | 'cancelled'
-- event_id: 1 | 1 | 2
