"""Each rule of the splitter, in a case of its own: the models, and what reads them."""

from __future__ import annotations

import pytest

from loader.proposing import tree
from loader.proposing.files import pretty
from testkit.databases import Database
from tests.proposing.support import Halves, must_prove, split
from waltally.errors import SettingError

CASES = {
    "counts and sums of a table are its fact, and HAVING is asked of it": (
        "select channel, count(*) as n, sum(amount) as total from orders group by 1 having count(*) > 5"
        " order by 2 limit 3",
        "SELECT channel AS channel, count(*) AS n, sum(amount) AS total FROM orders orders GROUP BY 1",
    ),
    "an average is a sum and a number": (
        "select avg(amount) as mean from orders",
        "SELECT sum(amount) AS mean, count(amount) AS amount_count FROM orders orders",
    ),
    "a parameter becomes a key": (
        "select status, count(*) as n from orders where customer_id = 7 /* :customer */ group by 1",
        "SELECT customer_id AS customer_id, status AS status, count(*) AS n FROM orders orders GROUP BY 1, 2",
    ),
    "what groups the same rows alike is one fact, and what is asked for by a value comes first in its index": (
        "select c.id, (select count(*) from orders as o where o.placed_at > now() and o.customer_id = c.id) as later,"
        " (select sum(amount) from orders as o where o.placed_at > now() and o.customer_id = c.id) as amount,"
        " (select count(*) from orders as o where o.customer_id = c.id) as n from customers as c",
        "SELECT o.customer_id AS customer_id, o.placed_at AS placed_at, count(*) AS count, sum(amount) AS sum"
        " FROM orders o GROUP BY 1, 2",
        "SELECT o.customer_id AS customer_id, count(*) AS count FROM orders o GROUP BY 1",
        "select id from customers",
    ),
    "an enum may be a key": (
        "select count(*) as n from orders where mood <> 'good' /* :mood */",
        "SELECT mood::text AS mood, count(*) AS n FROM orders orders GROUP BY 1",
    ),
    "a constant stays one": (
        "select status, count(*) as n from orders where customer_id = 7 group by 1",
        "SELECT status AS status, count(*) AS n FROM orders orders WHERE customer_id = 7 GROUP BY 1",
    ),
    "a range of time is kept by the grain that its bounds begin": (
        "select count(*) as n from orders where placed_at > '2026-11-01 05:00' /* :from */",
        "SELECT date_trunc('hour', placed_at) AS hour, placed_at = date_trunc('hour', placed_at) AS is_start_of_hour,"
        " count(*) AS n FROM orders orders GROUP BY 1, 2",
    ),
    "what a day or another key decides is no key": (
        "select date_trunc('week', placed_at) as week, customer_id / 10 as tens, count(*) as n from orders"
        " where placed_at >= '2026-11-01' /* :from */ and customer_id > 3 /* :least */ group by 1, 2",
        "SELECT date_trunc('day', placed_at) AS day, customer_id AS customer_id, count(*) AS n FROM orders orders GROUP BY 1, 2",
    ),
    "nor where the counted table is joined afterwards": (
        "select c.country, o.customer_id % 2 as odd, count(*) as n from customers as c"
        " left join orders as o on o.customer_id = c.id and o.placed_at > now() - interval '1 day' group by 1, 2",
        "SELECT o.customer_id AS customer_id, o.placed_at AS placed_at, count(*) AS n FROM orders o GROUP BY 1, 2",
        "select id, country from customers",
    ),
    "an hour is the grain where the query groups by it": (
        "select date_trunc('hour', placed_at) as hour, count(*) as n from orders"
        " where placed_at >= '2026-11-01' /* :from */ group by 1",
        "SELECT date_trunc('hour', placed_at) AS hour, count(*) AS n FROM orders orders GROUP BY 1",
    ),
    "an hour of a zone that once had other minutes is a key beside UTC's": (
        "select date_trunc('hour', placed_at at time zone 'Europe/Berlin') as hour, count(*) as n from orders"
        " where placed_at >= '2026-11-01 05:00' /* :from */ group by 1",
        "SELECT date_trunc('hour', placed_at) AS hour, date_trunc('hour', placed_at AT TIME ZONE 'Europe/Berlin') AS hour_2,"
        " count(*) AS n FROM orders orders GROUP BY 1, 2",
    ),
    "rows that are looked up by their key are a rows model": (
        "select count(*) as n from customers as c where not exists (select from orders where id = c.id)",
        "select id from orders",
        "select id from customers",
        "SELECT count(*) AS n FROM customers_rows c LEFT JOIN orders_rows orders ON orders.id = c.id"
        " WHERE orders.id IS NULL",
    ),
    "and rows that are looked up by another column stay where they are asked for": (
        "select count(*) as n from customers as c where exists (select from orders as o where o.region = c.country)",
        "select id, region from orders",
        "SELECT c.country AS country, count(*) AS n FROM customers c GROUP BY 1",
    ),
    "constants whose rows a reader leaves out are joined when somebody reads": (
        "select v.span, count(*) as n from orders as o cross join (values ('day'), ('all')) as v (span)"
        " where v.span = 'all' or o.placed_at > now() - interval '1 day' group by 1",
        "SELECT o.placed_at AS placed_at, count(*) AS n FROM orders o GROUP BY 1",
    ),
    "a bound that moves with the clock begins no grain": (
        "select count(*) as n from orders where placed_at >= now() - interval '30 days'",
        "SELECT placed_at AS placed_at, count(*) AS n FROM orders orders GROUP BY 1",
    ),
    "a distinct count and a maximum have their value as a key": (
        "select count(distinct customer_id) as people, max(amount) as highest from orders",
        "SELECT customer_id AS customer_id, amount AS amount, count(*) AS row_count FROM orders orders GROUP BY 1, 2",
        "SELECT count(DISTINCT orders.customer_id) AS people, max(orders.amount) AS highest FROM report orders",
    ),
    "what a group of a model decides is a roll-up, and a parameter that is compared by = is its key": (
        "select status, count(distinct customer_id) as people, round(avg(amount), 2) as mean from orders"
        " where channel = 'web' /* :c */ group by 1 having count(*) > 5 order by 2 limit 2",
        "SELECT channel AS channel, status AS status, customer_id AS customer_id, sum(amount) AS amount_sum,"
        " count(amount) AS amount_count, count(*) AS row_count FROM orders orders GROUP BY 1, 2, 3",
        "SELECT orders.channel AS channel, orders.status AS status, count(DISTINCT orders.customer_id) AS people,"
        " round(sum(orders.amount_sum)::numeric / (NULLIF(sum(orders.amount_count), 0)), 2) AS mean,"
        " COALESCE(sum(orders.row_count), 0)::bigint AS value FROM report orders GROUP BY 1, 2",
    ),
    "but not where a parameter's range decides": (
        "select max(channel) as last, count(distinct customer_id) as people from orders where status = 'paid' /* :s */"
        " and placed_at < '2026-11-10' /* :to */ group by status",
        "SELECT status AS status, date_trunc('day', placed_at) AS day, channel AS channel, customer_id AS customer_id,"
        " count(*) AS row_count FROM orders orders GROUP BY 1, 2, 3, 4",
    ),
    "the first row of each group is a roll-up over a table's rows, and a parameter parts the groups": (
        "select distinct on (customer_id) customer_id, amount from orders where channel = 'web' /* :c */"
        " and status = 'paid' order by customer_id, placed_at desc, id limit 10",
        "select id, customer_id, channel, amount, placed_at from orders where status = 'paid'",
        "SELECT DISTINCT ON (channel, customer_id) customer_id AS customer_id, amount AS amount, channel AS channel,"
        " placed_at AS placed_at, id AS id FROM orders_rows orders ORDER BY channel, customer_id, placed_at DESC, id",
    ),
    "and so are windows over rows, of which only those are kept that somebody reads": (
        "select x.customer_id, x.id from (select customer_id, id, rank() over (partition by customer_id order by amount, id) as n"
        " from orders) as x where x.n <= 3",
        "select id, customer_id, amount from orders",
        "SELECT * FROM (SELECT customer_id AS customer_id, id AS id,"
        " rank() OVER (PARTITION BY customer_id ORDER BY amount, id) AS n FROM orders_rows orders) ranked WHERE n <= 3",
    ),
    "a parameter parts the groups of windows too": (
        "select x.customer_id, x.id from (select customer_id, id, rank() over (partition by customer_id order by amount, id) as n"
        " from orders where channel = 'web' /* :c */) as x where x.n <= 3",
        "select id, customer_id, channel, amount from orders",
        "SELECT * FROM (SELECT customer_id AS customer_id, id AS id, rank() OVER (PARTITION BY customer_id, channel"
        " ORDER BY amount, id) AS n, channel AS channel FROM orders_rows orders) ranked WHERE n <= 3",
    ),
    "of first rows all columns may be asked for": (
        "select distinct on (country) * from customers order by country, id",
        'select id, country, is_test, land, "group" from customers',
        "SELECT DISTINCT ON (country) customers.id AS id, customers.country AS country, customers.is_test AS is_test,"
        ' customers.land AS land, customers."group" AS "group" FROM customers_rows customers ORDER BY country, id',
    ),
    "of a join with parents the rows are taken before": (
        "select distinct on (o.customer_id) o.customer_id, c.country, o.status from orders as o"
        " join customers as c on c.id = o.customer_id and not c.is_test where o.channel = 'web' and c.country <> 'FR'"
        " order by o.customer_id, o.placed_at desc, o.id",
        "select id, customer_id, status, placed_at from orders where channel = 'web'",
        "SELECT DISTINCT ON (o.customer_id) o.customer_id AS customer_id, o.status AS status, o.placed_at AS placed_at,"
        " o.id AS id FROM orders_rows o ORDER BY o.customer_id, o.placed_at DESC, o.id",
        "select id, country, is_test from customers where country <> 'FR'",
    ),
    "and where each row has one row of a parent, or none; a group that nobody selects is the model's": (
        "select x.id, x.country, x.n from (select o.id, c.country, rank() over (partition by o.status, o.channel order by o.placed_at, o.id)"
        " as n from orders as o left join customers as c on c.id = o.customer_id and c.is_test) as x where x.n <= 3",
        "select id, customer_id, channel, status, placed_at from orders",
        "SELECT * FROM (SELECT o.id AS id, o.customer_id AS customer_id, rank() OVER (PARTITION BY o.status, o.channel"
        " ORDER BY o.placed_at, o.id) AS window_1, o.status AS status, o.channel AS channel FROM orders_rows o) ranked"
        " WHERE window_1 <= 3",
        "select id, country, is_test from customers",
    ),
    "a LIMIT in LATERAL is the place of a row in its group": (
        "select c.country, x.id from customers as c left join lateral (select o.id from orders as o"
        " where o.customer_id = c.id order by placed_at desc, id limit 2) as x on true where c.is_test",
        "select id, customer_id, placed_at from orders",
        "SELECT * FROM (SELECT o.id AS id, o.customer_id AS asked_1, row_number() OVER (PARTITION BY o.customer_id"
        " ORDER BY placed_at DESC, id) AS place FROM orders_rows o) ranked WHERE place <= 2",
        "select id, country from customers where is_test",
    ),
    "an aggregate that needs each row is a roll-up over them": (
        "select customer_id, array_agg(id order by id) as ids, sum(id * interval '1 day') as took,"
        " percentile_cont(0.5) within group (order by amount) as usual from orders"
        " where channel = 'web' /* :c */ group by 1",
        "select id, customer_id, channel, amount from orders",
        "SELECT channel AS channel, customer_id AS customer_id, array_agg(id ORDER BY id) AS ids,"
        " sum(id * '1 day'::interval) AS took, percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) AS usual"
        " FROM orders_rows orders GROUP BY 1, 2",
    ),
    "a percentile has its value as a key, which stands for as many rows": (
        "select status, percentile_disc(0.5) within group (order by least(amount, 10) desc)"
        " filter (where channel = 'web') as usual, count(*) as n from orders group by 1",
        "SELECT status AS status, LEAST(amount, 10) AS key_2, channel = 'web' AS key_3, count(*) AS row_count"
        " FROM orders orders GROUP BY 1, 2, 3",
    ),
    "values without an order, or with several spellings, are keys as texts": (
        "select details, took, count(*) as n from orders group by 1, 2",
        "SELECT details::text AS details, took::text AS took, count(*) AS n FROM orders orders GROUP BY 1, 2",
    ),
    "a float is added up as a numeric": (
        "select channel, sum(amount::float8) as total, avg(amount::real) as mean from orders group by 1",
        "SELECT channel AS channel, sum(amount::float8::double precision::text::numeric) AS total,"
        " sum(amount::real::double precision::text::numeric) AS mean, count(amount::real) AS mean_count"
        " FROM orders orders GROUP BY 1",
    ),
    "what ON says of the counted table alone is the model's condition": (
        "select c.country, count(o.id) as n from customers as c left join orders as o on o.customer_id = c.id"
        " and o.status = 'paid' group by 1",
        "SELECT o.customer_id AS customer_id, count(o.id) AS n FROM orders o WHERE o.status = 'paid' GROUP BY 1",
        "select id, country from customers",
        "SELECT c.country AS country, sum(o.n) AS n FROM customers_rows c LEFT JOIN report_orders o"
        " ON o.customer_id = c.id GROUP BY 1",
    ),
    "a parent is a rows model, and the children are counted before they are joined": (
        "select c.country, count(*) as n from orders as o join customers as c on c.id = o.customer_id where not c.is_test"
        " group by 1",
        "SELECT o.customer_id AS customer_id, count(*) AS n FROM orders o GROUP BY 1",
        "select id, country from customers where NOT is_test",
        "SELECT c.country AS country, sum(o.n) AS n FROM report_orders o JOIN customers_rows c ON c.id = o.customer_id"
        " GROUP BY 1",
    ),
    "a copied column may have a word of SQL as its name": (
        'select c."group", count(*) as n from orders as o join customers as c on c.id = o.customer_id'
        " group by 1",
        "SELECT o.customer_id AS customer_id, count(*) AS n FROM orders o GROUP BY 1",
        'select id, "group" from customers',
        'SELECT c."group" AS "group", sum(o.n) AS n FROM report_orders o'
        " JOIN customers_rows c ON c.id = o.customer_id GROUP BY 1",
    ),
    "a sum of an expression of a table that an outer join may leave out is asked of its nulls too": (
        "select c.id, sum(coalesce(o.amount, 5)) as total from customers as c left join orders as o"
        " on o.customer_id = c.id and o.placed_at > now() - interval '1 day' group by c.id",
        "SELECT o.customer_id AS customer_id, o.placed_at AS placed_at, sum(COALESCE(o.amount, 5)) AS total,"
        " count(*) AS row_count FROM orders o GROUP BY 1, 2",
        "select id from customers",
    ),
    "but where those have no value the columns are keys": (
        "select c.id, count(1 / coalesce(o.customer_id, 0)) as n from customers as c left join orders as o"
        " on o.customer_id = c.id and o.placed_at > '2020-01-01' group by c.id having count(*) > 1",
        "SELECT o.customer_id AS customer_id, count(*) AS row_count FROM orders o"
        " WHERE o.placed_at > '2020-01-01' GROUP BY 1",
        "select id from customers",
        "SELECT c.id AS id, sum(COALESCE(o.row_count, 1)) FILTER (WHERE 1 / COALESCE(o.customer_id, 0) IS NOT NULL)"
        " AS sum, sum(COALESCE(o.row_count, 1)) AS sum_2 FROM customers_rows c LEFT JOIN report_orders o"
        " ON o.customer_id = c.id GROUP BY 1",
    ),
    "and casts of them, as a key has not the spelling of its values": (
        "select coalesce(o.amount::text, '-') as amount, count(*) as n from customers as c"
        " left join orders as o on o.customer_id = c.id and o.placed_at > now() - interval '1 day' group by 1",
        "SELECT o.customer_id AS customer_id, o.placed_at AS placed_at, o.amount::text AS key_1,"
        " count(*) AS n FROM orders o GROUP BY 1, 2, 3",
        "select id from customers",
    ),
    "and texts that are put together of them": (
        "select coalesce(o.amount || ' EUR', '-') as amount, count(*) as n from customers as c"
        " left join orders as o on o.customer_id = c.id and o.placed_at > now() - interval '1 day' group by 1",
        "SELECT o.customer_id AS customer_id, o.placed_at AS placed_at, o.amount || ' EUR' AS key_1,"
        " count(*) AS n FROM orders o GROUP BY 1, 2, 3",
        "select id from customers",
    ),
    "of EXISTS and IN a value is kept once": (
        "select count(*) as n from customers as c where exists (select * from orders as o where o.customer_id = c.id"
        " and o.status = 'paid') and country = 'DE'",
        "SELECT o.customer_id AS customer_id, count(*) AS row_count FROM orders o WHERE o.status = 'paid' GROUP BY 1",
        "select id from customers where country = 'DE'",
        "SELECT count(*) AS n FROM customers_rows c JOIN report o ON o.customer_id = c.id",
    ),
    "of IN under an alias that the query has": (
        "select count(*) as n from orders as o where o.customer_id in (select o.id from customers as o where o.country = 'DE')"
        " and not exists (select from customers as c where c.id = o.id and c.id < 9)",
        "select id from customers where country = 'DE'",
        "select id from customers where id < 9",
        "select id, customer_id from orders",
        "SELECT o.customer_id AS customer_id, count(*) AS n FROM orders_rows o"
        " LEFT JOIN customers_rows_2 c ON c.id = o.id WHERE c.id IS NULL GROUP BY 1",
    ),
    "a set of EXCEPT ALL counts the rows of its arms": (
        "select count(*) as n from orders where status in"
        " (select channel from orders except all select country from customers)",
        "select id, channel from orders",
        "select id, country from customers",
        "SELECT status AS status, count(*) AS n FROM orders orders GROUP BY 1",
    ),
    "a column may be named with its schema, and a comment may be the end": (
        'select "lab"."orders"."status", count(*) as n from lab.orders'
        " where lab.orders . amount > 5 group by lab.orders.status -- all",
        "SELECT orders.status AS status, count(*) AS n FROM orders orders WHERE orders.amount > 5 GROUP BY 1",
    ),
    "a condition with OR stays one where another is added": (
        "select count(*) filter (where (status = 'open' or placed_at < now()) and placed_at > now() - interval '20 days')"
        " as n from orders",
        "SELECT status = 'open' AS key_1, placed_at AS placed_at, count(*) AS n FROM orders orders GROUP BY 1, 2",
    ),
    "a condition on a parameter moves out of a sub-select": (
        "select status, count(*) as n from (select status from orders where channel = 'web' /* :channel */"
        " and amount > 1) as o group by 1",
        "SELECT o.asked_1 AS asked_1, status AS status, count(*) AS n FROM (SELECT status, channel AS asked_1"
        " FROM orders orders WHERE amount > 1) o GROUP BY 1, 2",
    ),
    "a sub-select's order is left out of what is counted over it": (
        "select x.status, x.n from (select o.status, count(*) as n from (select * from orders order by placed_at) as o"
        " group by 1) as x",
        "SELECT o.status AS status, count(*) AS n FROM (SELECT * FROM orders orders) o GROUP BY 1",
    ),
    "and over the first row of each group, so that the answer is kept": (
        "select x.status, count(*) as n from (select distinct on (customer_id) customer_id, status from orders"
        " order by customer_id, placed_at desc, id) as x group by 1",
        "select id, customer_id, status, placed_at from orders",
        "SELECT DISTINCT ON (customer_id) customer_id AS customer_id, status AS status, placed_at AS placed_at,"
        " id AS id FROM orders_rows orders ORDER BY customer_id, placed_at DESC, id",
        "SELECT x.status AS status, count(*) AS n FROM (SELECT customer_id AS customer_id, status AS status FROM report_answer) x GROUP BY 1",
    ),
    "a CTE may have the name of the table that it reads": (
        "with orders as (select status from orders where channel = 'web'), paid as (select * from orders"
        " where status = 'paid') select count(*) as n from paid",
        "SELECT count(*) AS n FROM (SELECT * FROM (SELECT status FROM orders orders WHERE channel = 'web') orders"
        " WHERE status = 'paid') paid",
    ),
    "a view of the application and a CTE are what they are made of": (
        "with paid as (select * from priced where status = 'paid') select count(*) as n from paid",
        "SELECT count(*) AS n FROM (SELECT * FROM (SELECT id, status FROM orders orders WHERE amount"
        " IS NOT NULL) priced WHERE status = 'paid') paid",
    ),
}
"""By claim a query and its models; the proof shows what reads them."""


@pytest.mark.parametrize("claim", CASES)
def test_rule(shop: Database, claim: str) -> None:
    query, *models = CASES[claim]
    # From PostgreSQL 16 on a view over one table prints its columns without it.
    made = [
        one.replace("(SELECT orders.id, orders.", "(SELECT id, ")
        for one in must_prove(shop, query).models
    ]
    assert [one.replace("WHERE orders.amount IS", "WHERE amount IS") for one in made] == models


@pytest.mark.parametrize(
    "query",
    [
        'select sum(o.x) as "fileSize", "camelCol" from "S"."Tab" as o join (select 1) as "Sub" ("A") on true',
        'with "Cte" ("A") as (select 1 as "a""b"), b as (values (1)) select distinct "A", 2 as "order" from "Cte"',
        'select rank() over w as "X", a::"My" from "S"."T" as t cross join u where x in (select y from u)'
        " and c operator(pg_catalog.+) 1 is distinct from 2 window w as (order by b)",
        "select extract(hour from at), b collate \"C\" from t where a between 1 and 2 union all select 'FROM', 2",
    ],
)
def test_what_is_written_has_the_words_of_what_was_proven(query: str) -> None:
    proven = tree.statement(tree.parse(query)[0])
    written = pretty(proven)
    assert tree.statement(tree.parse(written)[0]) == proven
    assert "\nfrom" in written


@pytest.mark.parametrize(
    ("taken", "joined"),
    [
        ("distinct on (c.country) o.id", "join customers as c on c.id = o.customer_id"),
        ("distinct on (o.status) o.id, c.id as n", "join customers as c on c.id = o.customer_id"),
        ("distinct on (o.status) o.id", "left join customers as c on c.country = o.channel"),
        (
            "distinct on (o.customer_id) o.id",
            "left join customers as c on c.id = o.id where c.id is null",
        ),
        (
            "o.id, rank() over (partition by o.status order by o.id, c.country)",
            "left join customers as c on c.id = o.customer_id",
        ),
        (
            "o.id, lag(o.id) over (order by o.id)",
            "join customers as c on c.id = o.customer_id",
        ),
    ],
)
def test_rows_are_not_taken_before_a_join_that_decides_which(
    shop: Database, taken: str, joined: str
) -> None:
    order = taken.partition("(")[2].partition(")")[0] if "distinct" in taken else "o.status"
    query = f"select {taken} from orders as o {joined} order by {order}, o.placed_at, o.id"
    with pytest.raises(SettingError, match="only copies of the tables would be kept"):
        split(shop, query)


def test_a_copied_table_has_its_key_and_all_rows_that_an_outer_join_may_leave_alone(
    shop: Database,
) -> None:
    halves = split(
        shop,
        "select c.id, max(o.amount) as most from customers as c left join orders as o"
        " on o.customer_id = c.id where o.status is null group by 1",
    )
    customers, orders, *_ = halves.plan.models.values()
    assert (customers.columns, customers.where) == (("id",), "")
    assert (orders.columns, orders.where) == (("id", "customer_id", "status", "amount"), "")


def test_a_grain_that_the_bounds_do_not_begin_is_not_taken(shop: Database) -> None:
    query = "select count(*) as n from orders where placed_at >= '2026-11-01 05:30' /* :from */"
    halves = split(shop, query, grain="hour")
    assert "date_trunc" not in halves.models[0]
    # In October the first hour of a day comes twice there, and its day begins with the second one.
    query = "select count(*) as n from orders where placed_at >= current_date"
    assert "date_trunc('hour'" in split(shop, query, "Atlantic/Azores").models[0]


def test_a_limit_is_left_out_of_the_proof_as_ties_may_be_cut_anywhere(shop: Database) -> None:
    query = "select status, count(*) as n from orders group by 1 order by count(*) > 0 limit 1"
    proof = split(shop, query).prove()
    assert (proof.rows, proof.missing, proof.surplus) == (3, [], [])


READ = {
    "what has an order or a text is as the model has it": (
        "select status, max(channel) as last, max(amount) || ' EUR' as most from orders"
        " where placed_at < '2026-11-10' /* :to */ group by status",
        "SELECT orders.status AS status, max(orders.channel) AS last, max(orders.amount) || ' EUR' AS most"
        " FROM report orders WHERE orders.day < '2026-11-10' GROUP BY orders.status",
    ),
    "an enum is a text": (
        "select c.land, x.n from customers as c join (select customer_id, count(*) as n from orders group by 1) as x"
        " on x.customer_id = c.id where c.id < 9",
        "SELECT c.land AS land, x.n AS n FROM (SELECT id, land::lab.land AS land FROM customers_rows) c JOIN"
        " (SELECT orders.customer_id AS customer_id, orders.n AS n FROM report orders) x ON x.customer_id = c.id",
    ),
}
"""By claim a query, and what reads its models."""


@pytest.mark.parametrize("claim", READ)
def test_what_a_model_s_table_has_otherwise_is_read_as_the_query_has_it(
    shop: Database, claim: str
) -> None:
    query, reads = READ[claim]
    assert must_prove(shop, query).reads == reads


@pytest.mark.parametrize("other", ["status as other, n", "status, n::int as n"])
def test_a_view_with_other_columns_is_refused(shop: Database, other: str) -> None:
    halves = split(shop, "select status, count(*) as n from orders group by 1")
    halves.select.CopyFrom(tree.parse(f"select {other} from waltally_model_0")[0])
    with pytest.raises(SettingError, match="The columns would be"):
        halves.prove()


@pytest.mark.parametrize(
    "query",
    [
        "select distinct channel from orders",
        "select status from orders union select country from customers",
        "select count(*) as n from orders having count(*) > 1",
        "select country from customers where id not in (select customer_id from orders where amount > 49) and id < 9"
        " union all select channel from orders group by channel",
        "select o.channel, rank() over (order by sum(amount) desc) as place, sum(count(*)) over () as n"
        " from orders as o group by o.channel",
        "select coalesce(c.country, 'none') as land, count(o.id) as n, count(*) as rows from orders as o"
        " full join customers as c on c.id = o.customer_id and o.amount > 20 group by 1",
        "with n as (select customer_id, count(*) as n from orders group by 1)"
        " select a.n, count(*) as people from n as a join n as b on a.customer_id = b.customer_id + 1 group by 1",
        "select status, count(*) as n from orders where not (placed_at >= '2026-11-03' /* :from */ and"
        " placed_at <= '2026-11-09 05:00' /* :to */) group by 1",
        "select sum(o.amount * c.id) as weighted, avg(c.id) as mean, count(c.country) as n, min(c.country) as first"
        " from orders as o join customers as c on c.id = o.customer_id",
        "select c.country, percentile_disc(0.25) within group (order by o.amount) as low, max(o.amount) as high"
        " from customers as c left join orders as o on o.customer_id = c.id and o.placed_at < now() group by c.country",
        "select a.channel, a.usual from (select channel, percentile_disc(0.5) within group (order by least(amount, 10))"
        " as usual from orders group by 1) as a where a.usual > 1 order by 2",
        "select customer_id % 7 as some, percentile_disc(0) within group (order by channel) as first from orders"
        " group by 1 having percentile_disc(1) within group (order by channel) >= 'web'",
        "select x.k, count(o.id) as n from (values ('web'), ('fax')) as x (k) left join orders as o on o.channel = x.k group by 1",
    ],
)
def test_what_stands_around_the_aggregates_stays(shop: Database, query: str) -> None:
    must_prove(shop, query)


def test_the_proof_finds_rows_that_only_one_of_both_gives(shop: Database) -> None:
    query = "select channel, count(*) as n from orders group by 1"
    some, every = split(shop, f"{query} having count(*) > 750"), split(shop, query)
    more = Halves(some.plan, some.original, every.select).prove()
    assert more.surplus and not more.missing
    less = Halves(every.plan, every.original, some.select).prove()
    assert less.missing and not less.surplus
