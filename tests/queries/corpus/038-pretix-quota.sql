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

-- values
-- status: 'paid' | 'pending' | 'cancelled'
-- event_id: 1 | 1 | 2
