-- PyPI (pypi/warehouse)
-- tables
create table organisations (id uuid primary key, kind text not null);
create table roles (id uuid primary key, organisation_id uuid not null references organisations, user_id uuid not null);

-- query
select kind, count(id) as organisations
from (
    select o.id, o.kind, count(r.user_id) as members from organisations as o join roles as r on r.organisation_id = o.id group by o.id, o.kind
) as m
where members > 1 group by kind;
