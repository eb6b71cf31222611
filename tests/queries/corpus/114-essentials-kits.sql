-- Human Essentials (rubyforgood/human-essentials)
-- tables
create table items (id bigint primary key, kind text not null, category text);
create table distributions (id bigint primary key, organisation_id bigint not null, issued_at timestamp not null);
create table lines (id bigint primary key, item_id bigint not null references items, quantity integer not null, parent_id bigint not null, parent_kind text not null);

-- query
select sum(l.quantity * k.quantity) as items
from distributions as d join lines as l on l.parent_kind = 'Distribution' and l.parent_id = d.id
join items as i on i.id = l.item_id join lines as k on k.parent_kind = 'Item' and k.parent_id = i.id join items as c on c.id = k.item_id
where d.organisation_id = 1 /* :organisation */ and extract(year from d.issued_at) = 2026 /* :year */ and i.kind = 'Kit' and c.category = 'adult_incontinence';

-- values
-- organisation_id: 1 | 1 | 2
-- kind: 'Kit' | 'Item'
-- category: 'adult_incontinence' | 'adult_incontinence' | null
-- parent_kind: 'Distribution' | 'Item'
-- items.id: 1 | 2 | 3 | 4
-- issued_at: '2025-12-31 23:59' | '2026-01-01' | '2026-11-01'
