-- Queries over models that are refused. Before each a part of the reason, and after a bar a part of what to write.

-- A CTE that reads a model is used twice | a CTE for each use
with p as (select * from {project}) select count(*) as n from p join p as q on q.id = p.owner

-- The query reads no model | by ref()
with p as (select * from {project}) select count(*) as n from (values (1)) as one (x)

-- A query over models without an aggregate | a view
select id, owner from {project}

-- The right side of a LEFT JOIN is made of several models | one after the other
select count(*) as n from {project} p
left join ({app_user} u join {membership} m on m.user_id = u.id) on u.id = p.owner

-- An arm of UNION ALL reads no model | a view
select owner, count(*) as n from (select owner from {project} union all select 1) as x group by 1

-- project stands on both sides of a LEFT JOIN | a second model of the same rows
select count(*) as n from {project} p left join {project} q on q.id = p.owner

-- compares no column of its right side by = | an inner join
select count(*) as n from {project} p left join {app_user} u on u.id > p.owner

-- string_agg() depends on the order of rows (column names) | `id` last in its ORDER BY, the key of app_user
select is_active, string_agg(name, ',' order by note) as names from {app_user} group by 1

-- array_agg() depends on the order of rows | an ORDER BY that leaves no choice
select p.owner, array_agg(u.name) as n from {project} p join {app_user} u on u.id = p.owner group by 1

-- array_agg() depends on the order of rows | `id` last
select owner, array_agg(x) as n from {project} cross join unnest(array[owner, id]) as x group by 1

-- array_agg() depends on the order of rows | `id` last in its ORDER BY, the key of project
select owner, cdc.percentile_disc(0.5, array_agg(id order by id), array_agg(id order by is_open))
    as n from {project} group by 1

-- max() cannot be taken back row by row | a fact over these models that also groups by the value
select owner, max(p.id) as n from {project} p join {app_user} u on u.id = p.owner group by 1

-- other names for the columns of a table | AS
select p.b, count(p.a) as n, count(p.c) as m from {project} as p (a, b, c) group by 1

-- A roll-up whose list makes several rows of one | cross join unnest
select unnest(array[id, owner]) as x, max(id) as n from {project} group by 1

-- compares no column of its right side by = | an inner join
select count(*) as n from {project} p
left join (select id, length(name) as size from {app_user}) u on u.id = u.size

-- compares no column of its right side by = | an inner join
select count(*) as n from {project} p
left join {app_user} u on u.id = (select max(x) from unnest(array[u.id / 2, length(u.name)]) as x)

-- compares no column of its right side by = | an inner join
select count(*) as n from {project} p left join {app_user} u on u.id = 1

-- compares no column of its right side by = | an inner join
select count(*) as n from {project} p left join {app_user} u on u.id = p.owner or u.is_active

-- compares no column of its right side by = | an inner join
select count(*) as n from {project} p left join {membership} m on m.user_id = m.project_id

-- compares no column of its right side by = | an inner join
select count(*) as n from {project} p
left join {app_user} u on u.note::varchar = coalesce(left(p.id::text, 1), 'x')::bpchar

-- an order that leaves open which row comes first | `id` last in ORDER BY
select distinct on (owner) owner, is_open from {project} order by owner, is_open

-- an order that leaves open which row comes first (column n) | `id` last in ORDER BY
select id, owner, row_number() over (partition by owner order by is_open) as n from {project}

-- leaves open which row comes first
select id, owner, sum(id) over (partition by owner order by is_open rows 1 preceding) as n from {project}

-- leaves open which row comes first
select distinct on (owner) owner, x from {project} cross join unnest(array[id, owner]) as x order by owner, id

-- The key of project is not selected | Select `id`
select owner, rank() over (partition by owner order by id) as n from {project}

-- Nothing says which rows of project belong together | a PARTITION BY
select id, rank() over (order by id) as n from {project}

-- Nothing says which rows of project belong together | a column of project by which the query groups
select owner % 2 as half, count(*) as n from {project} group by 1 having count(*) > 1

-- Nothing says which rows of project belong together
select id, rank() over (partition by owner order by id) as n, count(*) over (partition by is_open) as m from {project}

-- joined with values | the model below
select id, owner, count(*) over (partition by owner) as n from {project} cross join (values (1), (2)) as v (x)

-- a window function | windows alone over one model
select owner, count(*) as n from (select owner, rank() over (partition by owner order by id) as r from {project}) as x group by 1

-- a window function | windows alone over one model
select p.id, p.owner, rank() over (partition by p.owner order by p.id) as n from {project} p join {app_user} u on u.id = p.owner

-- A grouped expression is not selected | DISTINCT ON
select distinct on (owner, is_open) owner, id from {project} order by owner, is_open, id
