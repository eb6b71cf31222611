-- Human Essentials (rubyforgood/human-essentials)
-- tables
create table items (id bigint primary key, organisation_id bigint not null, name text not null);
create table distributions (id bigint primary key, storage_id bigint not null);
create table adjustments (id bigint primary key, storage_id bigint not null);
create table transfers (id bigint primary key, from_id bigint not null);
create table lines (id bigint primary key, item_id bigint not null references items, quantity integer not null, parent_id bigint not null, parent_kind text not null);

-- query
select i.id, i.name, sum(case when l.quantity < 0 then -1 * l.quantity else l.quantity end) as quantity
from lines as l join items as i on i.id = l.item_id
left join distributions as d on d.id = l.parent_id and l.parent_kind = 'Distribution'
left join adjustments as a on a.id = l.parent_id and l.parent_kind = 'Adjustment'
left join transfers as t on t.id = l.parent_id and l.parent_kind = 'Transfer'
where (d.storage_id = 1 or (a.storage_id = 1 and l.quantity < 0) or t.from_id = 1 /* :storage */) and i.organisation_id = 1 /* :organisation */
group by i.id, i.name order by i.name;

-- model lines_by_parent
{{ config(materialized='waltally') }}
select item_id, parent_id, parent_kind, quantity < 0 as is_out, sum(abs(quantity)) as quantity from {{ source('app', 'lines') }} group by 1, 2, 3, 4;

-- model given
{{ config(materialized='waltally') }}
select id, storage_id from {{ source('app', 'distributions') }};

-- model adjusted
{{ config(materialized='waltally') }}
select id, storage_id from {{ source('app', 'adjustments') }};

-- model moved
{{ config(materialized='waltally') }}
select id, from_id from {{ source('app', 'transfers') }};

-- model items_out
{{ config(materialized='waltally') }}
select l.item_id, coalesce(d.storage_id, case when l.is_out then a.storage_id end, t.from_id) as storage_id, sum(l.quantity) as quantity
from {{ ref('lines_by_parent') }} as l left join {{ ref('given') }} as d on d.id = l.parent_id and l.parent_kind = 'Distribution'
left join {{ ref('adjusted') }} as a on a.id = l.parent_id and l.parent_kind = 'Adjustment'
left join {{ ref('moved') }} as t on t.id = l.parent_id and l.parent_kind = 'Transfer'
group by 1, 2;

-- model item_names
{{ config(materialized='waltally') }}
select id, organisation_id, name from {{ source('app', 'items') }};

-- reads
select i.id, i.name, o.quantity from {{ ref('items_out') }} as o join {{ ref('item_names') }} as i on i.id = o.item_id
where o.storage_id = 1 and i.organisation_id = 1 order by i.name;

-- values
-- parent_kind: 'Distribution' | 'Adjustment' | 'Transfer'
-- quantity: 3 | -2 | 0 | 7
-- organisation_id: 1 | 1 | 2
-- distributions.id: 1 | 2 | 3 | 4
-- adjustments.id: 1 | 2 | 3 | 4
-- transfers.id: 1 | 2 | 3 | 4
