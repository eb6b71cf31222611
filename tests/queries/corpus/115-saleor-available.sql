-- Saleor (saleor/saleor)
-- tables
create table stocks (id integer primary key, warehouse_id uuid not null, variant_id integer not null, quantity integer not null);
create table allocations (id integer primary key, stock_id integer not null references stocks, quantity integer not null);

-- query
select s.id, s.quantity - coalesce((select sum(a.quantity) from allocations as a where a.stock_id = s.id), 0) as available
from stocks as s where s.variant_id in (1, 2) /* :variants */;

-- model allocated
{{ config(materialized='waltally') }}
select stock_id, sum(quantity) as quantity from {{ source('app', 'allocations') }} group by 1;

-- model stock_quantities
{{ config(materialized='waltally') }}
select id, variant_id, quantity from {{ source('app', 'stocks') }};

-- reads
select s.id, s.quantity - coalesce(a.quantity, 0) as available
from {{ ref('stock_quantities') }} as s left join {{ ref('allocated') }} as a on a.stock_id = s.id
where s.variant_id in (1, 2);
