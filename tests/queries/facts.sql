-- Facts that are kept through random histories. Before each its name, and after a bar its config and, as `expected`,
-- what its query is compared by where that is another one.

-- by_day | {"surrogate_key": "id"}
select (at at time zone 'Europe/Berlin')::date as day, mood, count(*) as n,
    sum(amount) as amount, count(*) filter (where flag) as flags,
    round(avg(amount), 2) as average from {a} where name <> 'draft' or name is null
    group by 1, 2

-- in_a_zone | {"timezone": "Europe/Berlin"}
with import as (select * from {a}), final as (
    select at::date as day, extract(hour from at) as hour, a.code, count(*) as n
    from import as a where at >= '2026-01-01' group by 1, hour, code
) select * from final

-- total
select count(*) as n, sum(n) as s, avg(small) as a, sum(price) as p from {a}

-- total_of_two
select count(*), coalesce(sum(x), 0) as s from (
    select n as x from {a} union all select n from {b} where n < 100) as twain

-- of_two
select name, mood::text as mood, sum(amount) as amount, count(amount) as amounts,
sum(a) - sum(b) as difference, avg(amount) as average from (
    select name, mood, amount, 1 as a, null::integer as b from {a}
    union all
    select name, mood, amount, null, 2 from {b} where flag is not false
) as twain group by 1, 2

-- purged | {"ignore_deletes": ["lab.b"]}
select kind, count(*) as n, sum(amount) as amount from (
    select 'live' as kind, amount from {a} union all select 'old', amount from {b}
) as twain group by kind

-- purged_alone | {"ignore_deletes": ["lab.b"]}
select pad, letter, count(*) as n, sum(n) as s from {b} group by pad, letter

-- twice
select flag, count(*) as n, sum(n) as s from (
    select flag, n from {a} union all select not flag, small from {a}
    union all select null, nullif(length(name), 1200) from {b}
) as x group by 1

-- long_keys
select name, repeat('x', 3) || code as code, pad, price, raw, count(*) as n
    from {a} group by 1, 2, 3, 4, 5

-- tags
select tag, mood = any (moods) as has, count(*) as n, count(tag) as tags
    from {a} cross join unnest(tags) as tag group by 1, 2

-- left_tags
select tag.value, tag.place, doc ->> 'k' as k, count(*) as n from {a}
    left join lateral unnest(tags) with ordinality as tag (value, place) on true
    group by 1, 2, 3

-- of_the_row
select (select max(x) from unnest(nums) as x) as greatest, count(*) as n,
    sum((select count(distinct t) from unnest(tags) as t)) as tags from {a} group by 1

-- in_the_list
select unnest(nums) as num, count(*) as n from {a} group by 1

-- guarded
select flag, case when count(n) > 0 then sum(small) / count(n) end as a,
    case when sum(n) = 0 then 0 else sum(small) / sum(n) end as b from {a} group by 1

-- division
select 10 / small as x, count(*), sum(12 / n) as y from {a} group by 1

-- errors_of_other_classes
select (select tag from unnest(tags) as tag) as tag, array_position(nums, 3) as place,
    name::jsonpath::text as path, count(*) as n from {a} group by 1, 2, 3

-- not_finite
select flag, sum(case id % 7 when 1 then 'NaN' when 2 then 'Infinity' when 3 then '-Infinity' else n::numeric end)
    as s, count(*) as n from {a} group by 1

-- numbers_in_texts
select code::integer as code, sum(name::numeric) as s, count(*) as n from {a} group by 1

-- numbers_by_a_format
select to_number(code, '9,999.99MI') as code, sum(to_number(n::text, '9,999')) as s, count(*) as n
    from {a} group by 1

-- ratios
select flag, sum(n)::numeric / nullif(sum(small), 0) as ratio, 100 * count(*) filter
    (where n > 0) / count(*) as percent, round(avg(amount), 2) as average,
    coalesce(sum(amount) filter (where flag), 0) as coalesced, sum(n) / 100.0 as hundredth,
    case when sum(n) > 10 then 'many' else 'few' end as word, count(*)::integer as four,
    count(1) as ones, greatest(sum(n), sum(small)) as larger, avg(n + small) as sums
    from {a} group by flag

-- constants
select v.name as word, a.flag, count(*) as n from {a} as a
    join (values ('a'), ('b'), (null)) as v (name) on a.name = v.name or v.name is null
    group by 1, 2

-- enums
select mood, moods, moods::text as words, count(*) filter (where mood = 'it''s') as n,
    count(*) filter (where mood in ('sad', 'ok')) as m from {a} group by 1, 2, 3

-- enums_beside_totals
select mood, moods, case when count(*) > 1 then mood end as often, case when count(*) > 1 then moods end as all_of
    from {a} group by 1, 2

-- odd_names | {"surrogate_key": "ID x"}
select "odd ""name}" as "x""y {keys}", count("odd ""name}") as "{relation}",
    sum(n) as "$routine$", avg(n) as "select" from {a} group by 1

-- floats
select ratio::text as ratio, r::text as r, sum(ratio::text::numeric) as s,
    sum((r * 2)::numeric(10, 2)) as t from {a} group by 1, 2

-- texts
select lower(name) as low, body ->> 'k' as k, md5(body::text) as m, left(label, 1) as l,
    count(*) as n from {b} where name ilike '%a%' or name is null group by 1, 2, 3, 4

-- grouped_without_aggregate
select code, flag from {a} group by 1, 2

-- cash
select cash::text as cash, bits::text as bits, count(cash) as n from {a} group by 1, 2

-- keys_beside_totals
select small as n, n as small, sum(n) + small as s, lower(code) as code, pad,
    lower(code) || count(*) as c, length(pad) + count(*) as l, n + count(*) * small as x
    from {a} group by small, n, lower(code), pad

-- by_primary_key | {"expected": "select id, name, mood, count(tag) as tags, count(*) + 1 as more from {a} left join unnest(tags) as tag on true group by 1, 2, 3"}
select id, name, mood::text as mood, count(tag) as tags, count(*) + 1 as more from {a}
    left join unnest(tags) as tag on true group by id

-- ordered_values
select (select string_agg(t, ',' order by t desc) from unnest(tags) as t) as tags,
    (select t from unnest(tags) as t order by 1 limit 1) as first, count(*) from {a}
    group by 1, 2

-- guarded_names
select emptied, count(*) as good, sum(n) as bad, avg(n) as messages, count(n) as ordinal,
    sum(small) as row_count, count(small) as result, sum(id) as stored, count(id) as totals
    from (select flag as emptied, n, small, id from {a}) as delta group by emptied

-- unfolded_and_not_read
select count(*) as n from (select unnest(tags) as tag, 1 as one from {a}) as x

-- computed_and_not_read
with c as materialized (select flag, 1 / n as x, name, price from {a})
    select flag, count(*) as n from c group by 1

-- computed_for_two_and_not_read
with c as (select flag, 1 / n as x from {a})
    select flag, count(*) as n from (select flag from c union all select flag from c) as two group by flag

-- handed_up
with i as (select * from {a}), t as (select flag, code, count(*) as n, avg(n) as mean from i group by 1, 2),
    u as materialized (select mean, flag, code from t), v as (select mean as m, flag, code from u)
    select f, code, m from (select flag as f, code, m from v) as x

-- handed_up_under_one_name
with a as (select * from {a}), b as (with a as (select flag, count(*) as n from a group by 1) select * from a)
    select * from b

-- handed_up_twice_under_one_name
with a as (select flag, count(*) as n from {a} group by 1), b as (with a as (select * from a) select * from a)
    select * from b

-- names_of_arguments
select flag as ordinals, count(*) as changes, sum(n) as table_nos, count(n) as found from {a} group by 1

-- long_names
select flag, sum(n) as a_name_of_sixty_three_bytes_that_differs_in_its_last_byte_alon1,
    count(n) as a_name_of_sixty_three_bytes_that_differs_in_its_last_byte_alon2
    from (select flag, n from {a} union all select flag, n from {b}) as two group by 1

-- texts_beside_totals
select code, pad, 'ü' || code as t, upper(code) || count(*) as u, lower(pad) || count(*) as l,
    upper('ü' || code) || count(*) as v, case when code ilike 'Ü' then count(*) end as i,
    case when code > 'a' then sum(n) end as s from {a} group by code, pad, 3

-- expressions_of_whole_keys
select amount, pad, amount::text = '1.50' as is_that, amount::text || count(*) as text,
    octet_length(pad) as bytes, octet_length(pad) * count(*) as all_bytes from {a} group by amount, pad

-- domains
select amount, blob, octet_length(blob) as bytes, count(amount) as n, sum(amount) as s from {a} group by 1, 2

-- null_sum
select flag, sum(n) filter (where n > 1000) as s, sum(amount) filter (where flag) as a,
    sum(n) filter (where n > 1000) + 1 as s1, avg(n) filter (where n is null) as av
    from {a} group by flag

-- ctes_of_a_row
select (with v as (select unnest(tags) as x), w as (select * from v where x <> 'b') select max(x) from w) as x,
    count(*) as n, sum((
        with v as (select e as x, name from unnest(nums) as e), unread as (select * from v)
        select sum(v.x) + count(v.name) from v where v.x >= (select min(w.x) from v as w)
    )) as s from {a} group by 1

-- collated_columns
select upper(name) as up, name < 'b' as is_first, upper(label::text) as label,
    (select max(t) from unnest(tags) as t) as last, count(*) as n from {b} group by 1, 2, 3, 4

-- expressions_of_keys
select price, day, unnest(tags) as tag, price * 2 + 1 as more, round(price, 1) as near, nullif(price, 3) is null as x,
    case when price > 2 then price end as large, price = any ('{1.5,3}') as some, upper(unnest(tags)) as upper,
    extract(year from day) as year, price * sum(n) as s, price::text as text, price::text || count(*) as of_text, count(*) as n
    from {a} group by price, day, price::text, unnest(tags)

-- words_of_the_clock_in_texts
select (nullif('{today}'::text[], tags))[1] as first, upper('tomorrow' || name) as name, count(*) as n
    from {a} group by (nullif('{today}'::text[], tags))[1], upper('tomorrow' || name)

-- by_interval
select span, count(*) as n, sum(amount) as amount from {a} group by span

-- by_floats
select ratio, r, count(*) as n from {a} group by 1, 2

-- by_document
select doc, count(*) as n from {a} group by doc

-- by_arrays
select tags, nums, array[span] as spans, count(*) as n from {a} group by 1, 2, 3

-- by_range
select period, clock, count(*) as n, sum(n) as s from {a} group by 1, 2
