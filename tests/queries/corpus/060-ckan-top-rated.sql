-- CKAN (ckan/ckan)
-- tables
create table packages (id text primary key, private boolean not null, state text not null);
create table ratings (id text primary key, package_id text not null references packages, rating double precision);

-- query
select p.id, avg(r.rating) as rating, count(r.rating) as ratings
from packages as p join ratings as r on r.package_id = p.id
where not p.private and p.state = 'active'
group by p.id order by 2 desc, 3 desc limit 10;

-- values
-- packages.id: 'a' | 'b' | 'c' | 'd' | 'e' | 'f'
-- state: 'active' | 'active' | 'deleted'
-- rating: 2.5 | null
