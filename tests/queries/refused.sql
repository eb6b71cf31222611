-- Queries that are refused. Before each a part of the reason, and after a bar a part of what to write
-- instead; the reason with where it stands, in some of them. Others PostgreSQL itself refuses in its own words.

-- max() cannot be taken back row by row (column max) | rows model
select flag, max(n) from {a} group by 1

-- DISTINCT in an aggregate cannot be taken back row by row (column count) | rows model
select flag, count(distinct n) from {a} group by 1

-- DISTINCT | GROUP BY
select distinct flag, count(*) from {a} group by 1

-- DISTINCT | rows model
select distinct on (flag) flag, count(*) from {a} group by 1

-- HAVING | a view
select flag, count(*) from {a} group by 1 having count(*) > 1

-- HAVING | a view
select count(*) from {a} having true

-- window | a view
select flag, count(*), sum(count(*)) over () from {a} group by 1

-- LIMIT | a view
select flag, count(*) from {a} group by 1 limit 5

-- OFFSET | a view
select flag, count(*) from {a} group by 1 offset 5

-- LIMIT | a view
select flag, count(*) from {a} group by 1 order by 1 fetch first 2 rows with ties

-- the order of jsonb values | as a text or number
select flag, mode() within group (order by doc) from {a} group by 1

-- the order of an enum's labels | as `column::text`
select flag, percentile_disc(0.5) within group (order by mood) from {a} group by 1

-- depends on the order | ORDER BY
select flag, string_agg(name, ',') from {a} group by 1

-- bool_or() cannot | rows model
select flag, bool_or(flag) from {a} group by 1

-- sum() of floats depends on the order of rows (column sum) | x::text::numeric
select flag, sum(ratio) from {a} group by 1

-- sum() cannot be taken back row by row (column sum) | rows model
select flag, sum(span) from {a} group by 1

-- GROUP BY below the top (column count) | a model of its own
select k, count(*) from (select flag as k, count(*) from {a} group by 1) as x group by 1

-- below the top | a model of its own
select k, count(*) from (select flag as k, n from {a} group by 1, 2) as x group by 1

-- below the top | a model of its own
with f as (select flag, count(*) as n from {a} group by 1) select * from f where flag

-- below the top (column total) | a model of its own
select total, count(*) from (select coalesce((select sum(o.n)), 0) as total from {a} as o) as x group by 1

-- below the top (column x) | a model of its own
with c as (select exists (select from unnest(array[1]) having max(o.n) > 1) as x from {a} as o)
    select x, count(*) from c group by 1

-- below the top (column x) | a model of its own
select x[1] as x, count(*) from (
    select array(select sum(o.n)) as x from {a} as o union all select nums from {a}) as y group by 1

-- x: a sub-select over totals | a view
select (select (select sum(o.n) + count(*))) as x from {a} as o

-- DISTINCT
select k, count(*) from (select distinct flag as k from {a}) as x group by 1

-- a sub-select over a table: it would ask rows that change by themselves (WHERE) | a fact of these rows
select flag, count(*) from {a} where n > (select avg(n) from {b}) group by 1

-- a sub-select over a table | a fact
select flag, count(*) from {a} as a where exists (select from {b} as b where b.id = a.n) group by 1

-- a sub-select over a table | a fact
with x as (select n from {b}) select flag, count(*) from {a} where n in (select n from x)
    group by 1

-- UNION | inside FROM
select flag, count(*) from {a} group by 1 union select true, 1

-- UNION ALL around | inside FROM
select flag, count(*) from {a} group by 1 union all select flag, count(*) from {b} group by 1

-- INTERSECT | UNION ALL
select f, count(*) from (select flag as f from {a} intersect all select flag from {b}) x group by 1

-- EXCEPT | UNION ALL
select f, count(*) from (select flag as f from {a} except select flag from {b}) x group by 1

-- UNION | UNION ALL
select f, count(*)
    from (select flag as f from {a} union all (select flag from {b} union select flag from {b})) x
    group by 1

-- reads no table | a view
select f, count(*) from (select flag as f from {a} union all select true) x group by 1

-- An arm of UNION ALL reads no table | a view
select f, count(*) from (select flag as f from {a} union all values (true)) x group by 1

-- recursive | a column
with recursive t as (select n from {a} union all select n + 1 from t where n < 5) select count(*)
    from t

-- A join of two tables | rows model of each source: of lab.a `select id, flag, n from {{ source(...) }}`
select a.flag, count(*) from {a} as a join {b} as b on a.n = b.id group by 1

-- A join of two tables | rows
select a.flag, count(*) from {a} as a, {b} as b group by 1

-- A join of two tables | rows
select x.flag, count(*) from {a} as x join {a} as y on x.id = y.id group by 1

-- NATURAL JOIN | USING
select a.flag, count(*) from {a} as a natural join (values (true)) as v (flag) group by 1

-- other names for the columns of a table | AS
select o.b, count(*) from {a} as o (a, b) group by 1

-- other names for the columns of a table | AS
select x.i, count(x.o) from {two} as x (i, o) group by 1

-- right of a LEFT JOIN | on the left
select k, count(a.id) from (values ('a'), ('b')) as v (k) left join {a} as a on a.name = v.k
    group by 1

-- RIGHT or FULL | LEFT JOIN
select k, count(a.id) from {a} as a right join (values ('a')) as v (k) on a.name = v.k group by 1

-- RIGHT or FULL | LEFT JOIN
select k, count(a.id) from {a} as a full join (values ('a')) as v (k) on a.name = v.k group by 1

-- a row used as a value (column count) | columns
select flag, count(a) from {a} as a group by 1

-- a row used as a value
select md5(a::text) as m, count(*) from {a} as a group by 1

-- grouping sets | a model
select flag, n, count(*) from {a} group by grouping sets ((flag), (n))

-- TABLESAMPLE
select flag, count(*) from {a} tablesample system (50) group by 1

-- locking
select flag, count(*) from (select flag from {a} for update) as x group by 1

-- several statements | a model for each
select flag, count(*) from {a} group by 1; select 1

-- column of the system
select ctid::text as c, count(*) from {a} group by 1

-- grouped expression is not selected | Select
select flag, count(*) from {a} group by 1, n

-- The query reads no source | by source()
select count(*) as n

-- pg_class | source()
select 1 as n, count(*) from pg_class as c group by 1

-- pg_class | source()
select a.flag, count(*) from {a} as a join pg_class as c on c.relname = a.name group by 1

-- may take any time and space (FROM) | a constant
select a.flag, count(*) from {a} as a cross join generate_series(1, a.n) as g group by 1

-- repeat() may take any time and space (column sum)
select flag, sum(length(repeat(name, n))) from {a} group by 1

---- The clock.

-- now() is the current time (WHERE) | keep the time
select flag, count(*) from {a} where at > now() group by 1

-- the current time, date or user (WHERE)
select flag, count(*) from {a} where day = current_date group by 1

-- now() is the current time (ON)
select flag, count(*) from {a} join (values (1)) as v (k) on k = n and at > now() group by 1

-- max() cannot be taken back row by row (column m, column most) | rows model
select flag, max(n) as most, count(*) + max(n) as m from {a} group by 1

-- current time
select flag, count(*) from {a} where at > clock_timestamp() group by 1

-- current time
select age(day) as a, count(*) from {a} group by 1

-- off the clock
select flag, count(*) from {a} where day = 'today' group by 1

-- off the clock
select flag, count(*) from {a} where day = 'Thu tomorrow' group by 1

-- off the clock
select flag, count(*) from {a} where day = '10:00today' group by 1

-- off the clock
select flag, count(*) from {a} where day = any ('{today}') group by 1

-- off the clock
select flag, count(*) from {a} where day <@ '[today,infinity)'::daterange group by 1

-- off the clock
select flag, count(*) from {a} where day = E'\x74oday' group by 1

-- off the clock
select flag, count(*) from {a} where seen > all ('{now}') group by 1

-- clock
select flag, count(*) from {a} where seen < 'yesterday allballs' group by 1

-- current time, date or user
select user, count(*) from {a} group by 1

-- another value at each call
select random()::text as r, count(*) from {a} group by 1

-- session's settings
select current_setting('a.b') as r, count(*) from {a} group by 1

-- PostgreSQL says it
select pg_sleep(n), count(*) from {a} group by 1

-- a function of your own | in the query
select count(*) from {a} where lab.mine(n) > 1

-- a function of your own
select count(*) from {a} where n operator(lab.@@@) n > 1

---- What depends on settings.

-- session's time zone | timezone=
select at::date as d, count(*) from {a} group by 1

-- time zone | timezone=
select date_trunc('day', at) as d, count(*) from {a} group by 1

-- time zone | timezone=
select to_char(at, 'YYYY') as y, count(*) from {a} group by 1

-- without an offset | +00
select flag, count(*) from {a} where at >= '2026-01-01' group by 1

-- time | timezone=
select flag, count(*) from {a} where at > seen group by 1

-- time zone | timezone=
select flag, count(*) from {a} where at + '1 day' > '2026-01-01 00:00+00' group by 1

-- spelling of a timestamp with | to_char
select at::text as t, count(*) from {a} group by 1

-- of a timestamp with time zone depends on settings (column a, column b, column c, column d, column e) | to_char
select (seen at time zone 'UTC')::text as a, (case when flag then at end)::text as b,
    coalesce(at, at)::text as c, (array[at])[1]::text as d,
    ((array[at] || at)::text[])[1] as e, count(*) from {a} group by 1, 2, 3, 4, 5

-- the spelling of a timestamp with time zone[] | to_char
select (array[at] || at)::text as x, count(*) from {a} group by 1

-- the spelling of a record | to_char
select row(seen)::text as x, count(*) from {a} group by 1

-- can say `today` | to_date
select name::date as d, count(*) from {a} group by 1

-- can say `today`
select (doc ->> 'k')::timestamp as d, count(*) from {a} group by 1

-- can say `today`
select name::interval::text as d, count(*) from {a} group by 1

-- today
select flag, count(*) from {a} where tags::date[] @> '{2026-01-01}' group by 1

-- out of range | datestyle
select flag, count(*) from {a} where day > '01/02/2026' group by 1

-- out of range | datestyle
select flag, count(*) from {a} where day = any ('{01/02/2026}') group by 1

-- out of range | datestyle
select flag, count(*) from {a} where period @> '01/02/2026'::date group by 1

-- IntervalStyle | words
select flag, count(*) from {a} where span > '-1 2:03:04' group by 1

-- time zone | d::timestamp
select date_trunc('month', day) as m, count(*) from {a} group by 1

-- age() of two moments | a - b
select age(at, at)::text as m, count(*) from {a} group by 1

-- format
select to_char(day::timestamp, 'TMMonth') as m, count(*) from {a} group by 1

-- constant | a sub-select
select -2.25::numeric as k, count(*) from {a} group by 1

-- cannot read again | a sub-select
select -1::integer as k, count(*) from {a} group by 1

-- format | constant format
select to_char(n, '9D99') as m, count(*) from {a} group by 1

-- format | constant format
select to_char(n, 'L99') as m, count(*) from {a} group by 1

-- format | constant format
select to_char(n, 's99') as m, count(*) from {a} group by 1

-- format | 9,999.99
select to_number(name, '9D99') as m, count(*) from {a} group by 1

-- format
select to_number(name, code) as m, count(*) from {a} group by 1

-- format
select to_char(day::timestamp, name) as m, count(*) from {a} group by 1

-- spelling | to_char
select concat(at, name) as m, count(*) from {a} group by 1

-- spelling
select format('%s', at) as m, count(*) from {a} group by 1

-- reg
select flag, count(*) from {a} where 'pg_class'::regclass::oid = n group by 1

-- names things of the server | a view over a rows model
select flag, count(*) from {a} where to_tsvector('english', name) @@ 'x' group by 1

-- make_timestamptz() depends on the session's time zone | timezone=
select make_timestamptz(n, 1, 1, 0, 0, 0) as x, count(*) from {a} group by 1

-- to_ascii() with an encoding | translate()
select to_ascii(name, label) as x, count(*) from {b} group by 1

---- Types.

-- A cast to lab.mood, a type that is not built in | `mood = 'sad'`
select flag, count(*) from {a} where mood = 'sad'::lab.mood group by 1

-- A cast to "elsewhere"."mood" | column::text
select flag, count(*) from {a} where cast(name as "elsewhere"."mood") is null group by 1

-- not built in | column::text
select cash, count(*) from {a} group by 1

-- PostgreSQL says it
select flag, sum(cash) from {a} group by 1

-- PostgreSQL says it
select count(*) from {a} where cash > '1'

-- not built in | column::text
select place, count(*) from {of_extensions} group by 1

-- an extension's type whose operator PostgreSQL looks up by its name | `=` in place of IS DISTINCT FROM
select count(*) from {of_extensions} where tag is distinct from 'a'

-- an extension's type whose operator PostgreSQL looks up by its name | NULLIF
select nullif(tag, 'a') as tag, count(*) from {of_extensions} group by 1

-- an extension's type whose operator PostgreSQL looks up by its name | CASE x WHEN y
select case tag when 'a' then 1 end as n, count(*) from {of_extensions} group by 1

-- an extension's type whose operator PostgreSQL looks up by its name | USING
select x.n, count(*) from {of_extensions} join (values ('a'::citext, 1)) as x (tag, n) using (tag) group by 1

-- public.added() is a function of your own
select added(tag) as tag, count(*) from {of_extensions} group by 1

-- enum
select flag, count(*) from {a} where mood = 'glad' group by 1

-- enum
select flag, count(*) from {a} where moods @> '{glad}' group by 1

-- order of an enum's labels, which the source may change (WHERE) | ::text
select flag, count(*) from {a} where mood > 'ok' group by 1

-- order of an enum | ::text
select greatest(mood, 'ok') as m, count(*) from {a} group by 1

-- order of an enum | ::text
select flag, count(*) from {a} where moods > '{ok}' group by 1

-- order of an enum | ::text
select (select max(m) from unnest(moods) as m) as m, count(*) from {a} group by 1

-- order of an enum | ::text
select (select m from unnest(moods) as m order by 1 limit 1) as m, count(*) from {a} group by 1

-- order | CASE
select flag, count(*) from {a} where mood between 'sad' and 'ok' group by 1

-- rowcompareexpr is not known here (WHERE) | without it
select flag, count(*) from {a} where (mood, n) > ('ok', 1) group by 1

-- order of jsonb
select flag, count(*) from {a} where doc > '{}' group by 1

-- order of jsonb
select greatest(doc, '{}')::text as m, count(*) from {a} group by 1

-- jsonb
select flag, count(*) from {a} where array[doc] > array['{}'::jsonb] group by 1

-- 33 columns, those beside a primary key among them, and an index has 32 at most | rows model
select id, n as c1, n as c2, n as c3, n as c4, n as c5, n as c6, n as c7, n as c8, n as c9, n as c10, n as c11,
    n as c12, n as c13, n as c14, n as c15, n as c16, n as c17, n as c18, n as c19, n as c20, n as c21, n as c22,
    n as c23, n as c24, n as c25, n as c26, n as c27, n as c28, n as c29, n as c30, n as c31, n as c32,
    count(tag) from {a} left join unnest(tags) as tag on true group by id

---- Totals.

-- a division by a total that can be 0 (column x) | nullif
select flag, sum(n) / sum(small) as x from {a} group by 1

-- can be 0 | nullif
select flag, sum(n) % count(small) as x from {a} group by 1

-- can be 0 | nullif
select sum(n) / count(*) as x from {a}

-- can be 0
select flag, sum(n) / count(*) filter (where flag) as x from {a} group by 1

-- can be 0 | nullif
select flag, sum(n) / nullif(sum(small), 1) as x from {a} group by 1

-- can be 0 | nullif
select flag, 1.0 / round(avg(n)) as x from {a} group by 1

-- depend on the order of changes (column x) | round
select flag, sum(amount)::text as x from {a} group by 1

-- numeric total as text | round
select flag, scale(sum(amount)) as x from {a} group by 1

-- numeric total as text
select flag, array[avg(n)]::text[] as x from {a} group by 1

-- depends on | a view
select flag, jsonb_build_object('n', count(*)) as x from {a} group by 1

-- beside totals | a view
select flag, to_char(count(*), '999') as x from {a} group by 1

-- beside totals | a view
select flag, to_number(count(*)::text, '999') as x from {a} group by 1

-- x: a sub-select over totals | a view
select flag, (select count(*)) as x from {a} group by 1

-- x: a sub-select over totals | a view
select flag, (select count(a.n)) as x from {a} as a group by 1

-- beside totals | a view
select flag, concat(count(*), 'x') as x from {a} group by 1

-- x: a sub-select over totals | a view
select flag, exists (select from unnest(array[sum(n)]) as x) as x from {a} group by 1

-- can be 0 | nullif
select flag, case when count(n) > 0 then sum(n) / count(name) end as x from {a} group by 1

-- can be 0 | nullif
select flag, case when count(n) > 0 then 1 else sum(n) / count(n) end as x from {a} group by 1

-- can be 0 | nullif
select flag, case when count(n) > 0 or flag then sum(n) / count(n) end as x from {a} group by 1

-- can be 0 | nullif
select flag, case when count(n) = 0 then sum(n) / count(n) end as x from {a} group by 1

-- can be 0 | nullif
select flag, case when count(n) > -1 then sum(n) / count(n) end as x from {a} group by 1

-- can be 0 | nullif
select flag, sum(n) / greatest(count(n), -1) as x from {a} group by 1

-- can be 0 | nullif
select flag, case when count(n) >= 0 then sum(n) / count(n) end as x from {a} group by 1

-- can be 0 | nullif
select flag, case when count(n) > 0 then 1 end + sum(n) / count(n) as x from {a} group by 1

-- can be 0 | nullif
select flag, case when count(n) > 0 then 1 when flag then sum(n) / count(n) end as x from {a}
    group by 1

-- can be 0 | nullif
select flag, case when count(n) filter (where flag) > 0 then sum(n) / count(n) end as x from {a}
    group by 1

-- x: a column that is not grouped beside totals | add both up in a view
select id, length(name) + sum(n) as x from {a} group by id

---- Beside GROUP BY.

-- could tell equal values of a group apart (1.5 and 1.50), of which it has one (column t) | the expression in GROUP BY too
select price, price::text as t, count(*) from {a} group by price

-- tell equal values of a group apart
select price, length(coalesce(price, 1)::text) * count(*) as x from {a} group by price

-- tell equal values of a group apart
select price + 1 as more, (price + 1) / 7 as x, count(*) from {a} group by 1, price + 1

-- tell equal values of a group apart
select id, price, scale(price) + count(tag) as x from {a} left join unnest(tags) as tag on true group by id

-- a sub-select over a grouped value | the sub-select in GROUP BY too
select price, (select price::text) as x, count(*) from {a} group by price

-- which makes rows of groups (column part) | cross join unnest
select name, unnest(string_to_array(name, ',')) as part, count(*) from {a} group by name

-- a set-returning function
select id, unnest(tags) as tag, count(*) from {a} group by id

---- Rows, which may hold labels of an enum.

-- the order of rows | one by one
select (select row(mood, n) as x) < (select row(name, n) as y) as x, count(*) from {a} group by 1

-- the order of rows
select array[row(mood, n)] < array[row(mood, 1)] as x, count(*) from {a} group by 1

-- the order of rows
select (select x is null from (select row(m) as x from unnest(moods) as m) as q order by x limit 1)
    as x, count(*) from {a} group by 1

-- order of an enum | column::text
select (select m from unnest(moods) as m limit 1) < (select m from unnest(moods) as m limit 1) as
    x, count(*) from {a} group by 1

-- order of an enum
select (select moods) < (select moods) as x, count(*) from {a} group by 1

---- A value that a sub-select hands up.

-- the spelling of a timestamp | to_char
select (select at)::text as x, count(*) from {a} group by 1

-- spelling depends
select (select at limit 1) || 'x' as x, count(*) from {a} group by 1

-- spelling depends
select concat((select (select at)), 'x') as x, count(*) from {a} group by 1

-- spelling depends
select array_to_string(array(select at), ',') as x, count(*) from {a} group by 1

-- order of an enum
select (array(select moods)) < (array(select moods)) as x, count(*) from {a} group by 1

-- ONLY | without ONLY
select flag, count(*) from only {a} group by 1

---- Names.

-- waltally_ | another name
select flag, count(*) as waltally_rows from {a} group by 1

-- waltally_ | another name
with waltally_source_1 as (select flag from {a}) select flag, count(*) from waltally_source_1
    group by 1

-- Two texts that follow each other | one text
select flag, count(*) from {a} where name = 'a' 'b' group by 1

-- U& | the characters themselves
select flag, count(*) from {a} where name = U&'a' group by 1

-- U& | the characters themselves
select flag, count(*) as U&"\0077altally_rows" from {a} group by 1

-- begins with waltally_, as names of ours do, handed up by `*` | in place of `*`
with x as (select * from {waltally_odd}) select count(*) from x

-- dollars | quotation marks
select flag, count(*) from {a} where name = $$a$$ group by 1

-- comment
select flag, count(*) /* a /* b */ c */ from {a} group by 1

-- PostgreSQL says it
insert into lab.b (id) values (1) returning 1

-- PostgreSQL says it
with x as (delete from {a} returning flag) select flag, count(*) from x group by 1

-- could not determine which collation | in a view
select flag, ('00000000-0000-0000-0000-000000000001'::uuid)::text = ('00000000-0000-0000-0000-000000000001'::uuid)::text as same,
    count(*) as n from {a} group by 1

-- tell equal values of a group apart | GROUP BY
select span, extract(day from span) as days, count(*) from {a} group by span

-- tell equal values of a group apart | GROUP BY
select doc, doc::text as t, count(*) from {a} group by doc

-- tell equal values of a group apart | GROUP BY
select ratio, ratio::text as t, count(*) from {a} group by ratio
