-- Saleor (saleor/saleor)
-- tables
create table stocks (id integer primary key, warehouse_id uuid not null, variant_id integer not null, quantity integer not null);
create table allocations (id integer primary key, stock_id integer not null references stocks, quantity integer not null);

-- query
select s.id, s.quantity - coalesce((select sum(a.quantity) from allocations as a where a.stock_id = s.id), 0) as available
from stocks as s where s.variant_id in (1, 2) /* :variants */;
