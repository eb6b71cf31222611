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

-- values
-- parent_kind: 'Distribution' | 'Adjustment' | 'Transfer'
-- quantity: 3 | -2 | 0 | 7
-- organisation_id: 1 | 1 | 2
-- distributions.id: 1 | 2 | 3 | 4
-- adjustments.id: 1 | 2 | 3 | 4
-- transfers.id: 1 | 2 | 3 | 4
