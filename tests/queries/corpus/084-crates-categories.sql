-- crates.io (rust-lang/crates.io)
-- tables
create table categories (id integer primary key, slug text not null unique);
create table crate_categories (crate_id integer, category_id integer references categories, primary key (crate_id, category_id));

-- query
select c.id, c.slug, count(*) as crates
from categories as c join categories as s on split_part(s.slug, '::', 1) = c.slug join crate_categories as m on m.category_id = s.id
where split_part(c.slug, '::', 1) = c.slug
group by c.id, c.slug order by crates desc limit 10;

-- values
-- slug: 'a' | 'b' | 'a::x' | 'a::y' | 'b::x' | 'c' | 'c::x'
-- categories.id: 1 | 2 | 3 | 4 | 5 | 6 | 7
-- crate_id: 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8
-- category_id: 1 | 2 | 3 | 4 | 5 | 6 | 7
