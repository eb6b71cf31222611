-- crates.io (rust-lang/crates.io)
-- tables
create table categories (id integer primary key, slug text not null unique);
create table crate_categories (crate_id integer, category_id integer references categories, primary key (crate_id, category_id));

-- query
select c.id, c.slug, count(*) as crates
from categories as c join categories as s on split_part(s.slug, '::', 1) = c.slug join crate_categories as m on m.category_id = s.id
where split_part(c.slug, '::', 1) = c.slug
group by c.id, c.slug order by crates desc limit 10;

-- model crates_by_category
{{ config(materialized='waltally') }}
select category_id, count(*) as crates from {{ source('app', 'crate_categories') }} group by 1;

-- model category_slugs
{{ config(materialized='waltally') }}
select id, slug, split_part(slug, '::', 1) as top from {{ source('app', 'categories') }};

-- reads
select c.id, c.slug, sum(m.crates) as crates
from {{ ref('category_slugs') }} as c join {{ ref('category_slugs') }} as s on s.top = c.slug join {{ ref('crates_by_category') }} as m on m.category_id = s.id
where c.top = c.slug
group by c.id, c.slug order by crates desc limit 10;

-- values
-- slug: 'a' | 'b' | 'a::x' | 'a::y' | 'b::x' | 'c' | 'c::x'
-- categories.id: 1 | 2 | 3 | 4 | 5 | 6 | 7
-- crate_id: 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8
-- category_id: 1 | 2 | 3 | 4 | 5 | 6 | 7
