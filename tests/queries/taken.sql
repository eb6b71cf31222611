-- Queries that look like refused ones and are taken. Before each what is taken, and after a bar its config.

-- values that sub-selects over the row hand up
select (select name) || (select n) as x,
    array_to_string(array(select t from unnest(tags) as t), ',') as y,
    concat(exists (select from unnest(tags)), (select day)) as z, count(*) from {a}
    group by 1, 2, 3

-- ORDER BY means nothing
select flag, count(*) from {a} group by 1 order by 2 desc

-- constants of dates and times with all they need
select flag, count(*) from {a} where day > '2026-01-01' and at > '2026-01-01 00:00+02' group by 1

-- an interval in unit words
select flag, count(*) from {a} where span > '1 day 2 hours' group by 1

-- infinity is no clock
select flag, count(*) from {a} where day < 'infinity' group by 1

-- what depends on the zone alone, in the model's zone | {"timezone": "Europe/Berlin"}
select at::date as d, date_trunc('month', day) as m, count(*) from {a}
    where at >= '2026-01-01' and at < seen and at - interval '1 day' < day group by 1, 2

-- moments made of numbers | {"timezone": "Europe/Berlin"}
select make_timestamptz(n, 1, 1, 0, 0, 0) as x, make_timestamptz(n, 1, 1, 0, 0, 0, 'Asia/Tokyo') as y,
    count(*) from {a} group by 1, 2

-- a zone of its own
select date_trunc('day', at, 'Europe/Berlin') as d, count(*) from {a} group by 1

-- constant formats without locale parts
select to_char(seen, 'YYYY-MM-DD') as d, to_date(name, 'YYYY-MM-DD') as e, to_char(n, '000') as f,
    count(*) from {a} group by 1, 2, 3

-- numbers in texts by a constant format without locale parts
select to_number(name, '9,999.99MI') as x, count(*) from {a} group by 1

-- values that no setting spells otherwise, by concat and format
select concat(name, n, flag) as c, format('%s-%s', code, id) as f, count(*) from {a} group by 1, 2

-- the same as texts of arrays and numbers
select array_to_string(tags, ',') as c, n::text || name as d, count(*) from {a} group by 1, 2

-- deterministic collations by name
select name collate lab.strict as c, lower(name collate "C") as d, count(*) from {a} group by 1, 2

-- nondeterministic collations
select mail, name collate lab.loose as name, mail collate "C" as c, count(*) as n from (
    select mail, mail::text as name from {words} where mail = 'A') as w group by 1, 2, 3

-- GROUP BY of the primary key selects its other columns
select id, name, count(tag) as tags from {a} left join unnest(tags) as tag on true group by id

-- keys beside totals
select small, sum(n) + small as s, count(*) / nullif(small, 0) as t from {a} where small > 0
    group by small

-- a number's text and a rounded total's
select flag, round(avg(n), 2)::text || '%' as t, count(*)::text as c from {a} group by 1

-- divisions that CASE guards
select flag, case when count(n) > 0 then sum(small) / count(n) else -1 end as a,
    case when sum(n) <> 0 and count(*) > 2 then 1.5 / sum(n) end as b,
    case when count(n) = 0 then 0 else round(sum(amount) / count(n)::numeric, 2) end as c,
    case when flag then 1 when 0 < 1 and count(name) > 0 then count(*) / count(name) end as d
    from {a} group by 1

-- divisions by what is never 0
select flag, 100.0 * sum(n) / count(*) as t, sum(n) / greatest(sum(small), 1) as g,
    sum(n) / nullif(sum(n), 0)::numeric as h, sum(n) / coalesce(nullif(sum(n), 0), 1) as i,
    count(*) / 2 as j, sum(n) / 1.5 as k, sum(n)::numeric / count(*)::numeric as l from {a}
    group by 1

-- LIMIT in a sub-select over the row's own values
select (select x from unnest(nums) as x order by x limit 1) as m, count(*) from {a} group by 1

-- an aggregate over the row's own values that is ordered
select (select string_agg(distinct x, ',' order by x) from unnest(tags) as x) as m, count(*)
    from {a} group by 1

-- an enum compared with its labels
select mood, moods::text as m, count(*) from {a} where mood = any (moods) and 'sad' = any (moods)
    group by 1, 2

-- operators of jsonb that know no order
select doc ->> 'k' as k, count(*) from {a} where doc @> '{"k": 1}' and doc ? 'k' group by 1

-- a function that makes rows of a document
select x.value ->> 0 as k, count(*) from {a} cross join jsonb_array_elements(doc) as x group by 1

-- words of the clock in texts
select flag, count(*) from {a} where name in ('today', 'now') or name like 'now%' group by 1

-- labels of an enum that are words of the clock
select word, count(*) from {words}
    where word = 'now' or word in ('pay now', 'today') and mood = 'sad' group by 1

-- CTEs that only pass on
with c as (select * from {a}), d as (select * from c),
    f as (select flag, count(*) as n from d group by 1) select * from f

-- a type of a cast's own, as text
select cash::text as c, count(cash) as n, count(*) filter (where cash is null) as m from {a}
    group by 1

-- names of the server's own, and of ours
select pg_temp, pg_temp_3, count(*) from {waltally_odd} where waltally_odd.pg_temp > 0 group by 1, 2

-- a logical and of columns
select u & "n" as x, count(*) from (select n as u, n from {a}) as x group by 1

-- config that says what the query says | {"unique_key": ["flag"], "surrogate_key": "id"}
select flag, count(*) as count from {a} group by 1

-- semicolons in comments and at the end
select /* ; */ flag, count(*) -- ;
 from {a} group by 1;

-- what PostgreSQL cannot read again as a key, it can as a column
select least, count(*) from (select -1::integer as least from {a}) as one group by 1

-- types of extensions by their own operators
select tag, pairs, tag like 'A%' as a, count(*) filter (where pairs -> 'a' = '1') as n from {of_extensions}
    where tag in ('a', 'B') and not tag = any (array['c'::citext]) group by 1, 2, 3
