-- Queries of which no rows are kept by their key. Before each the reason.

-- The primary key of lab.a is not selected as it is.
select kind from {a} as a

-- The primary key of lab.a is not selected as it is.
select id::integer as id from {a} as a

-- The primary key of lab.a is not selected as it is.
with o as (select -id as id from {a} as a) select id from o

-- The primary key of lab.a is not selected as it is.
select x.id, kind from {a} as a left join lateral (select a.id where a.flag) as x on true

-- lab.d has no primary key: nothing tells its rows apart.
select id, kind from {d} as d

-- a function that makes several rows of one (column tag).
select id, unnest(tags) as tag from {a} as a

-- a function that makes several rows of one (FROM).
select id, t from {a} as a, unnest(tags) as t

-- a join with constants, which may make several rows of one.
select id, v from {a} as a cross join (values (1), (2)) as x (v)

-- UNION ALL of rows: two of them could have one key.
select id from {a} as a union all select id from {c} as c

-- UNION ALL of rows: two of them could have one key.
select id from (select id from {a} as a union all select id from {a} as a) as x

-- The query names several tables, and rows of one are kept.
with o as (select id from {c} as c) select id from {a} as a

-- A join of two tables that change.
select a.id from {a} as a, {c} as c
