-- Lemmy (LemmyNet/lemmy)
-- tables
create table comments (id integer primary key, path text not null);

-- query
select parent::integer as comment_id, count(*) as children
from comments as c cross join lateral unnest((string_to_array(c.path, '.'))[2:]) as parent
where parent::integer <> c.id
group by parent;

-- values
-- path: '0.1' | '0.1.2' | '0.1.2.3' | '0.4' | '0.4.7' | '0'
