-- crates.io (rust-lang/crates.io)
-- tables
create table versions (id integer primary key, crate_id integer not null);
create table downloads (version_id integer references versions, day date, downloads integer not null, primary key (version_id, day));

-- query
select v.crate_id, sum(d.downloads) as downloads
from downloads as d join versions as v on v.id = d.version_id
where d.day > current_date - 90
group by v.crate_id;

-- model version_downloads
{{ config(materialized='waltally') }}
select version_id, day, downloads from {{ source('app', 'downloads') }};

-- model version_crates
{{ config(materialized='waltally') }}
select id, crate_id from {{ source('app', 'versions') }};

-- model crate_downloads
{{ config(materialized='waltally') }}
select v.crate_id, d.day, sum(d.downloads) as downloads from {{ ref('version_downloads') }} as d join {{ ref('version_crates') }} as v on v.id = d.version_id group by 1, 2;

-- reads
select crate_id, sum(downloads) as downloads from {{ ref('crate_downloads') }} where day > current_date - 90 group by crate_id;
