-- Models over the models of test_models.py and over each other, in their order. Before each its name.

-- inner_days
select d.day, d.channel, r.name as region, sum(d.order_count) as orders,
sum(d.amount) as amount, count(*) as n from {days} d
join {customer} c on c.id = d.customer_id join {region} r on r.id = c.region_id
group by 1, 2, 3

-- left_days
with customers as (select * from {customer}),
regions as (select id, name as called from {region})
select date_trunc('month', d.day::timestamp)::date as month, r.called as region, c.name,
sum(d.order_count) as orders, sum(d.amount * 2) filter (where d.channel = 'web') as web
from {days} d left join customers c on c.id = d.customer_id and c.since > '2026-01-05'
left join regions r on r.id = c.region_id group by 1, 2, 3

-- per_customer
select customer_id, sum(order_count) as orders, sum(amount) as amount,
avg(average) as average, sum(amount) - count(*) as rest from {days} group by customer_id

-- nested
select orders, count(*) as n, sum(amount) as amount from {per_customer} group by orders

-- percentiles
select channel, sum(order_count) as orders,
cdc.percentile_disc(
    0.95, array_agg(hours order by hours), array_agg(order_count order by hours)
) as p95,
cdc.percentile_disc(
    0.5, array_agg(day order by day), array_agg(amount order by day)
) as half_of_amount from {days} group by channel

-- has_child
select c.region_id, count(*) as n, count(*) filter (where p.orders > 3) as busy
from {customer} c join {per_customer} p on p.customer_id = c.id where p.orders > 0
group by 1

-- has_none
select c.region_id, count(*) as n from {customer} c
left join {per_customer} p on p.customer_id = c.id where p.customer_id is null
group by 1

-- may_see
select u.name, p.id as project, count(*) as n from {app_user} u
join {membership} m on m.user_id = u.id join {project} p on p.id = m.project_id
where u.is_active and (p.is_open or m.role = 'lead' or p.owner = u.id) group by 1, 2

-- finer
select d.channel, r.name as region, d.customer_id as customer, c.name as called, c.since,
d.day, d.hours, sum(d.order_count) as orders, sum(d.amount) as amount, count(*) as n
from {days} d left join {customer} c on c.id = d.customer_id
left join {region} r on r.id = c.region_id group by 1, 2, 3, 4, 5, 6, 7

-- by_region
select channel, region, sum(orders) as orders, sum(amount) as amount,
count(distinct customer) as customers,
count(distinct called) filter (where hours > 2 or day is null) as names,
max(since) as newest, min(day) as first_day, max(called) filter (where orders > 1) as last_name,
percentile_disc(0.3) within group (order by hours) as p30,
string_agg(called, ',' order by called) filter (where n > 1) as names_of_it,
stddev(orders) as spread, bool_or(hours > 6) as has_long, max(day) - min(day) as days,
count(*) as n
from {finer} where hours is distinct from 7 or channel = 'web' group by 1, 2

-- members
select project_id, array_agg(distinct user_id) as users, array_agg(role order by role) as roles
from {membership} group by 1

-- by_channel
with imported as (select * from {by_region})
select i.channel as kind, max(newest) as newest, count(distinct customers) as sizes,
avg(customers) as mean, sum(orders) as orders from imported i where i.n > 1 group by 1

-- diamond
select v.region, p.orders, count(*) as n, sum(v.amount * p.orders) as x from {finer} v
join {per_customer} p on p.customer_id = v.customer group by 1, 2

-- diamond3
select d.channel, b.customers, p.orders, count(*) as n from {days} d
join {per_customer} p on p.customer_id = d.customer_id
join {customer} c on c.id = p.customer_id join {region} r on r.id = c.region_id
join {by_region} b on b.channel = d.channel and b.region = r.name group by 1, 2, 3

-- pairs
select a.region_id as x, b.region_id as y, count(*) as n, sum(a.id * b.id) as s
from {customer} a join {customer} b on b.since = a.since and a.id < b.id group by 1, 2

-- triple
select m1.role as a, m2.role as b, count(*) as n from {membership} m1
join {membership} m2 on m2.project_id = m1.project_id
join {membership} m3 on m3.user_id = m2.user_id group by 1, 2

-- either
select kind, k, count(*) as n, sum(weight) as weight from (
    select 'customer' as kind, region_id as k, 1 as weight from {customer}
    union all select 'web', p.orders::integer, c.id from {per_customer} p
    join {customer} c on c.id = p.customer_id where amount > 3
    union all select region.name, region.id, 2 from {region} as region
) as each_of group by 1, 2

-- final
with days as (select * from {days}), customers as (select * from {customer}),
joined as (select c.name, c.region_id, d.* from days d left join customers c on c.id = d.customer_id),
final as (select name, region_id, channel, sum(order_count) as orders, count(*) as n
from joined where hours > 1 group by name, region_id, channel) select * from final

-- two_parents
select p.id, u.name as owner, v.name as viewer, m.role, count(*) as n from {membership} m
join {project} p on p.id = m.project_id left join {app_user} u on u.id = m.user_id
left join {app_user} v on v.id = m.id and v.is_active group by 1, 2, 3, 4

-- left_fact
select c.region_id, d.channel, count(d.day) as dated, sum(d.order_count) as orders,
count(*) as n from {customer} c left join {days} d on c.id = d.customer_id and d.hours > 3
group by 1, 2

-- two_neighbours
select p.id % 2 as half, u.name as owner, v.name as member, count(*) as n from {project} p
left join {membership} m on m.project_id = p.id left join {app_user} u on u.id = p.owner
left join {app_user} v on v.id = m.user_id group by 1, 2, 3

-- two_columns
select u.name as one, v.is_active as other, count(*) as n from {membership} m
left join {app_user} u on u.id = m.user_id left join {app_user} v on v.name = m.role
group by 1, 2

-- left_arms
select name, kind, count(*) as n from (
    select c.name, 'day' as kind from {days} d left join {customer} c on c.id = d.customer_id
    union all select c.name, 'project' from {project} p left join {customer} c on c.id = p.owner
    union all select name, 'customer' from {customer}
) as each_of group by 1, 2

-- spelled_amounts
select amount::text as amount, count(*) as n from {priced} group by 1

-- spelled
select concat(channel, hours) as what, max(day) as day, count(distinct customer_id) as n
from {days} group by 1

-- left_of_an_expression
select c.region_id, d.amount > 3 as is_large, count(*) as n from {customer} c
left join {per_customer} d on d.customer_id = c.id + coalesce(c.region_id, 0) % 2
and d.orders > 0 group by 1, 2

-- joined_by_long_texts
select u.is_active, count(*) as n from {app_user} u join {membership} m on m.note = u.note
group by 1

-- long_texts
select is_active, count(distinct note) as notes, max(note) as last_note from {app_user} group by 1

-- by_long_texts
select note, max(name) as last_name, count(*) as n from {app_user} group by 1

-- total
select count(*) as n, sum(order_count) as orders, avg(amount) as a from {days}

-- beside_a_total
select name, count(*) as n from {region} join {total} on true group by 1

-- left_of_left
select c.region_id, p.is_open, count(*) as n from {customer} c
left join {per_customer} d on d.customer_id = c.id + coalesce(c.region_id, 0) % 2
left join {project} p on p.owner = d.customer_id group by 1, 2

-- cases
select channel, sum(distinct case when hours > 2 then hours end) as hours,
avg(distinct case when hours > 2 then hours end) as mean,
count(distinct case when hours > 2 then customer_id end) as customers,
max(hours) filter (where case when channel = 'web' then hours > 4 else true end) as most
from {days} group by 1

-- greatest
select max(day) as newest, count(distinct channel) as channels, count(*) as n from {days}

-- lowered
select lower(channel) || '!' as c, hours / 2 as half, min(amount) as least, sum(amount) as s
from {days} d group by 1, 2

-- computed_on_the_way
select made.region_id, count(distinct made.initial) as initials, max(made.later) as later
from (select c.*, left(c.name, 1) as initial, c.id / 2.0 as later from {customer} c) as made
group by 1

-- left_of_two
select r.name, count(p.orders) as found, count(*) as n from {customer} c
join {region} r on r.id = c.region_id
left join {per_customer} p on p.customer_id = c.id and p.orders > r.id group by 1

-- left_under_its_alias
select near.name, changed.is_open, count(*) as n from {app_user} near
left join {project} changed on changed.owner = near.id and near.name <> 'a' group by 1, 2

-- left_by_two_columns_and_of_two
select d.channel, m.role, u.name, count(*) as n from {days} d
left join {membership} m on m.user_id = d.customer_id and m.project_id = d.hours
left join {app_user} u on u.id = m.user_id and u.id = d.hours group by 1, 2, 3

-- left_using
select u.id % 2 as half, p.is_open, count(*) as n from {app_user} u
left join {project} p using (id) group by 1, 2

-- left_of_left_arms
select x.kind, x.name as one, u.name as other, count(*) as n from (
    select customer_id as id, null as name, 'day' as kind from {days}
    union all select m.project_id, v.name, 'member' from {membership} m left join {app_user} v on v.id = m.user_id
    union all select p.id, v.name, 'project' from {project} p left join {app_user} v on v.id = p.owner
) as x left join {app_user} u on u.id = x.id group by 1, 2, 3

-- left_of_arms
select x.kind, u.name, count(*) as n from (
    select project_id as id, 'member' as kind from {membership} union all select id, 'project' from {project}
) as x left join {app_user} u on u.id = x.id group by 1, 2

-- places
select customer_id as ordinal, hours as sign, count(distinct channel) as channels, sum(order_count) as n
from {days} group by 1, 2

-- left_by_our_word
select c.region_id, p.ordinal, p.sign, count(*) as n from {places} p
left join {customer} c on c.id = p.ordinal group by 1, 2, 3

-- under_our_words
select touched.channel, min(hours) as least, count(distinct came.made) as n
from {days} touched cross join lateral (select hours % 3 as made) as came group by 1

-- by_spans
select case when hours > 4 then interval '30 days' when hours > 2 then interval '720:00' else hours * interval '20 hours' end as span,
array[hours % 2] as odd, hours % 3 * float8 '-0.5' as half, count(*) as n, sum(order_count) as orders from {days} group by 1, 2, 3

-- newest_by_spans
select case when hours > 4 then interval '30 days' else interval '720:00' end as span, daterange(day, day + 1) as days,
array[channel] as channels, max(hours) as most, count(distinct customer_id) as customers from {days} group by 1, 2, 3

-- over_spans
select span, count(*) as n, max(half) as most from {by_spans} group by span

-- letters
select m.project_id, count(distinct m.letter) as letters from {membership} m group by 1

-- users_by_letter
select letter, count(distinct user_id) as users from {membership} group by 1

-- by_letter
select a.letter::text as letter, count(*) as n from {membership} a join {membership} b on b.letter = a.letter
group by 1

-- by_bits
select a.role, count(*) as n from {membership} a join {membership} b on b.bits = a.bits group by 1

-- friends_of_members
select a.name, b.name as friend, count(*) as n from {customer} a
join {membership} m on m.user_id = a.id join {customer} b on b.id = m.project_id group by 1, 2

-- expressions_of_keys
select amount, abs(amount) + 1 as more, amount > 1 as large, amount * count(*) as weight, max(id) as last
from {priced} group by amount

-- collected
select customer_id, json_agg(amount order by day, channel, customer_id, hours) as amounts,
array_agg(amount order by amount, day, channel, customer_id, hours) filter (where hours > 2) as sorted,
string_agg(channel, ',' order by hours, channel) as channels, count(distinct (channel, hours)) as kinds,
sum(hours * interval '1 day 20 hours') as span, avg(hours::float8 / 3) as mean, sum(hours::float8) + sum(hours) as twice,
percentile_cont(0.4) within group (order by hours) as p40, max(hours * interval '1 day') as longest,
corr(hours, customer_id) as related, range_agg(daterange(day, day + 1)) as days,
array_agg(distinct upper('today' || channel) order by upper('today' || channel)) as words
from {days} group by 1

-- latest_of_each
select distinct on (customer_id, channel) customer_id, channel, day, hours, amount * 2 as amount from {days}
where hours > 1 order by customer_id, channel, day desc nulls last, hours

-- using_an_id
select u.name, c.region_id, count(*) as n from {customer} c left join {project} p using (id)
join {app_user} u on u.id = p.owner where u.is_active group by 1, 2

-- in_a_select
select region_id, (select region_id) as again, max(name) as name from {customer} group by 1

-- latest_by_name
select distinct on (note, user_id) note, role, user_id, id from {membership} where project_id > 1 order by user_id desc, note, project_id, id

-- many_only
select project_id, role, count(*) as n, sum(id) as ids, json_agg(id order by id) as members, max(id) - min(id) as between
from {membership} group by 1, 2 having count(*) > 1 or max(user_id) > 4

-- kinds_of_role
select distinct project_id, role, note from {membership} where id > 1

-- a_column_twice
select distinct project_id, role as part, project_id as again from {membership}

-- windows
select m.id, m.project_id as project, m.user_id, row_number() over w as place, sum(id) over (partition by project_id order by user_id) as running,
lag(user_id) over w as former, round(id / sum(id) over (partition by project_id)::numeric, 3) as share, count(*) over (partition by project_id, role) as alike
from {membership} m window w as (partition by project_id order by user_id desc nulls last, id)

-- two_of_each
with ranked as (select *, row_number() over (partition by region_id order by since desc nulls last, id) as place from {customer})
select id, region_id, since, place * 2 as twice from ranked where place <= 2 and region_id is not null

-- of_latest
select l.channel, count(*) as n, sum(l.amount) as amount from {latest_of_each} l group by 1

-- left_of_two_of_each
select r.name, count(t.id) as n from {region} r left join {two_of_each} t on t.region_id = r.id group by 1

-- by_loose_text
select p.name, count(*) as n, count(m.id) as members from {person} p left join {membership} m on m.user_id = p.id group by 1

-- loose_pairs
select a.name, count(*) as n, sum(b.id) as ids from {person} a join {person} b on b.name = a.name group by 1

-- left_by_loose_text
select u.id, u.is_active, count(p.id) as n from {app_user} u left join {person} p on p.name = u.name group by 1, 2

-- loose_texts
select name collate lab.loose as name, note, count(distinct p.name) as names, max(id) as last, count(distinct p.note) as notes
from {person} p group by 1, 2

-- loose_latest
select distinct on (name) name, id from {person} order by name, id desc

-- loose_windows
select id, name, count(*) over (partition by name) as alike, max(id) over (partition by name) as last from {person}
