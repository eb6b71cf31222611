-- crates.io (rust-lang/crates.io)
-- tables
create table versions (id integer primary key, crate_id integer not null);
create table downloads (version_id integer references versions, day date, downloads integer not null, primary key (version_id, day));

-- query
select v.crate_id, sum(d.downloads) as downloads
from downloads as d join versions as v on v.id = d.version_id
where d.day > current_date - 90
group by v.crate_id;
