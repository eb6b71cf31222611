"""A model over models equals its query over them, whatever its inputs do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from random import Random

import psycopg2
import pytest

from testkit.databases import empty_database
from testkit.servers import Cluster
from tests.queries.cases import cases
from tests.queries.models_lab import Above, Below, fill
from tests.queries.rows_lab import RowsLab

TABLES = """
create table lab.orders (
    id bigint primary key, placed date, channel text, customer_id integer, hours integer,
    amount numeric
);
create table lab.customers (id integer primary key, name text, region_id integer, since date);
create table lab.regions (id integer primary key, name text);
create table lab.users (id integer primary key, name text, is_active boolean, note text);
create table lab.memberships (
    id integer primary key, user_id integer, project_id integer, role text, note text
);
create table lab.projects (id integer primary key, owner integer, is_open boolean);
"""

BELOW = {
    "days": (
        "select placed as day, channel, customer_id, hours, count(*) as order_count, "
        "sum(amount) as amount, round(avg(amount), 2) as average from {orders} "
        "group by 1, 2, 3, 4"
    ),
    "priced": "select id, amount from {orders}",
    "customer": "select id, name, region_id, since from {customers}",
    "region": "select id, name from {regions}",
    "app_user": "select id, name, is_active, note from {users}",
    "membership": "select id, user_id, project_id, role, note from {memberships}",
    "project": "select id, owner, is_open from {projects}",
}

ABOVE = {name: query for name, _, query in cases("models")}
LONG_TEXT = "select string_agg(md5(n::text), '') from generate_series(1, 100) as n"


NOT_ABOVE = """
select own.name, lower.name
from cdc.downstream_model as own
join cdc.downstream_input as input on input.model_name = own.model_name
join cdc.downstream_model as lower on lower.model_name = input.input_name
where own.level <= lower.level
"""


@pytest.fixture(scope="module")
def lab(cluster: Cluster) -> Iterator[RowsLab]:
    made = RowsLab(cluster.dsn(empty_database(cluster).name), TABLES)
    for table in ("orders", "customers", "regions", "users", "memberships", "projects"):
        made.follow(table, True)
    yield made
    made.connection.close()


def begin(lab: RowsLab, rng: Random, *names: str) -> list[Below]:
    """Keep these models over tables and no others."""
    lab.execute(
        "truncate lab.orders, lab.customers, lab.regions, lab.users, lab.memberships, lab.projects;"
        "truncate cdc.change_log; delete from cdc.installed_model; truncate cdc.to_fill; "
        "delete from cdc.downstream_model"
    )
    others = ("numbered", "divided", "pairs", "infinite", "per_channel", "newest", "by_name")
    for name in (*ABOVE, *BELOW, *others, "amounts", "texts"):
        lab.execute(f"drop table if exists lab.{name} cascade")
    return [Below(lab, name, BELOW[name], rng) for name in names]


def some(rng: Random, *values: str) -> str:
    return rng.choice(values)


def change(rng: Random) -> str:
    """Return a random statement on one of the tables."""
    name = some(rng, "null", "'a'", "'B'", "'ä'", "''", "repeat('long', 60)")
    number = some(rng, "null", "1", "2", "3", "4")
    day = some(rng, "null", "'2026-01-03'", "'2026-01-09'", "'2026-02-01'")
    # The last one is too long for an index.
    note = some(rng, "null", "'a'", f"({LONG_TEXT})")
    values = {
        "orders": {
            "placed": day,
            "channel": some(rng, "null", "'web'", "'Web'", "'shop'"),
            "customer_id": some(rng, "null", *map(str, range(1, 7))),
            "hours": some(rng, "null", *map(str, range(1, 9))),
            "amount": some(rng, "null", "0", "1.5", "1.50", "7", "-2", "0.001"),
        },
        "customers": {"name": name, "region_id": number, "since": day},
        "regions": {"name": name},
        "users": {"name": name, "is_active": some(rng, "true", "false", "null"), "note": note},
        "memberships": {
            "user_id": number,
            "project_id": number,
            "role": some(rng, "'lead'", "'member'", "null"),
            "note": note,
        },
        "projects": {"owner": number, "is_open": some(rng, "true", "false")},
    }
    table = rng.choice([*values, "orders", "orders", "customers"])
    own = values[table]
    key = rng.randint(1, 30 if table == "orders" else 6)
    kind = rng.random()
    if kind < 0.5:
        new = ", ".join(own.values())
        sets = ", ".join(f"{c} = excluded.{c}" for c in own)
        return (
            f"insert into lab.{table} values ({key}, {new}) on conflict (id) do update set {sets}"
        )
    if kind < 0.75:
        column = rng.choice(list(own))
        return f"update lab.{table} set {column} = {own[column]} where id % {rng.randint(1, 5)} = 0"
    if kind < 0.85:
        return f"update lab.{table} set id = id + 100 where id = {key}"
    if kind < 0.98:
        return f"delete from lab.{table} where id % 10 = {key % 10}"
    return f"truncate lab.{table}"


def test_a_weighted_percentile_is_postgresql_s_own_of_as_many_rows(lab: RowsLab) -> None:
    different = lab.execute(
        """
        with given as (
            select set_no, v, w, f from generate_series(1, 300) as set_no
            cross join (values (0.0), (0.1), (0.5), (0.95), (1.0)) as asked (f)
            cross join lateral (
                select nullif((random() * 9)::integer, set_no % 10) as v, (random() * 4)::integer as w
                from generate_series(1, set_no % 7)
            ) as item
        )
        select set_no, f from given group by set_no, f
        having cdc.percentile_disc(f, array_agg(v order by v), array_agg(w order by v))
            is distinct from (
                select percentile_disc(given.f) within group (order by own.v)
                from given as own cross join generate_series(1, own.w)
                where own.set_no = given.set_no and own.f = given.f
            )
        """
    )
    assert different == []


@pytest.mark.parametrize(("reason", "remedy", "query"), cases("refused_models"))
def test_a_query_is_refused_with_what_to_write(
    lab: RowsLab, reason: str, remedy: str, query: str
) -> None:
    begin(lab, Random(0), "project", "app_user", "membership")
    with pytest.raises(psycopg2.Error) as refused:
        Above(lab, "refused", query)
    assert refused.value.pgcode == "WL003"
    assert reason in str(refused.value.diag.message_primary)
    assert remedy in (refused.value.diag.message_hint or "")


NOTED = {
    "inner_days": [],
    "pairs": [
        "ON holds neither the whole key of customer nor that of customer, so their rows may multiply"
    ],
    "beside_a_total": [
        f"no column of {name} is compared with one of another model by =, so each change of those"
        " reads the whole of it"
        for name in ("region", "total")
    ],
}


def test_joins_that_multiply_rows_or_read_a_whole_model_are_noted(lab: RowsLab) -> None:
    begin(lab, Random(0), *BELOW)
    for name in ("total", *NOTED):
        said = lab.value(
            "select cdc.say_model(%s)", json.dumps(Above(lab, name, ABOVE[name]).compiled)
        )
        assert said.split("; ")[1:] == NOTED.get(name, []), name


def test_an_input_with_the_same_columns_and_another_key_is_noticed(lab: RowsLab) -> None:
    begin(lab, Random(0), "days", "customer")
    newest = "select customer_id, {} as day, sum(order_count) as n from {{days}} group by {}"
    Above(lab, "newest", newest.format("max(day)", "1"))
    Above(
        lab,
        "by_name",
        "select c.name, count(*) as n from {customer} c "
        "left join {newest} d on d.customer_id = c.id group by 1",
    )
    fill(lab)
    assert lab.value("select cdc.changed_input('lab.by_name')") is None
    Above(lab, "newest", newest.format("day", "1, 2"))
    fill(lab)
    assert lab.value("select cdc.changed_input('lab.by_name')") == "lab.newest"


def test_a_key_of_a_roll_up_that_is_too_long_does_not_stop_its_input(lab: RowsLab) -> None:
    priced, users = begin(lab, Random(0), "priced", "app_user")
    Above(lab, "amounts", "select amount, max(id) as last from {priced} group by 1")
    Above(
        lab,
        "texts",
        "select name, note, count(distinct lower(name)) as n from {app_user} group by 1, 2",
    )
    fill(lab)
    # Four bytes each, and no two next ones again.
    text = "(select string_agg(chr(65536 + n * n * 7919 % 90000), '') from generate_series({}, {}) as n)"
    lab.transact(
        "insert into lab.orders select 1, null, null, null, null,"
        " (select string_agg((1000000 + n * 7919)::text, '') from generate_series(1, 2000) as n)::numeric",
        f"insert into lab.users values (1, {text.format(1, 250)}, true, {text.format(251, 500)})",
    )
    priced.catch_up()
    users.catch_up()
    assert lab.execute("select id from lab.priced") == [(1,)]
    assert lab.execute("select n from lab.texts") == [(1,)]


def test_a_row_of_which_only_the_model_above_can_make_nothing_does_not_stop_its_input(
    lab: RowsLab,
) -> None:
    (below,) = begin(lab, Random(0), "app_user")
    Above(
        lab,
        "numbered",
        "select name::integer as number, max(id) as last from {app_user} group by 1",
    )
    Above(lab, "divided", "select 12 / id as x, max(name) as y from {app_user} group by 1")
    named_alike = "from {app_user} as a join {app_user} as b on b.name = a.name"
    Above(lab, "pairs", f"select count(*) as n {named_alike}")
    fill(lab)
    lab.transact("insert into lab.users values (901, '7', true)")
    below.catch_up()
    assert lab.execute("select number, last from lab.numbered") == [(7, 901)]
    lab.transact("insert into lab.users values (902, 'seven', true)")
    below.catch_up()
    # No compression makes it short enough for an index.
    long = "(select string_agg(md5(n::text), '') from generate_series(1, 90) as n)"
    lab.transact(f"insert into lab.users values (903, {long}, true), (0, 'none', true)")
    below.catch_up()
    assert lab.value("select count(*) from lab.app_user where id > 900") == 3
    assert lab.execute("select n from lab.pairs") == [(4,)]
    errors = dict(lab.execute("select name, error from cdc.downstream_model"))
    assert "seven" in errors["numbered"]
    assert "division by zero" in errors["divided"]
    lab.transact("delete from lab.users")
    below.catch_up()


def test_a_sum_that_would_be_infinite_stops_the_model_that_makes_it(lab: RowsLab) -> None:
    """An infinity, or a NaN of two of them, would stay in the sum when the row has gone."""
    (below,) = begin(lab, Random(0), "priced")
    infinite = "sum(case when amount > 5 then 'Infinity'::numeric else amount end)"
    Above(lab, "infinite", f"select {infinite} as amount, bool_or(id > 2) as b from {{priced}}")
    fill(lab)
    lab.transact("insert into lab.orders (id, amount) values (1, 2), (2, 3.5)")
    below.catch_up()
    assert lab.execute("select amount from lab.infinite") == [(Decimal("5.5"),)]
    lab.transact("insert into lab.orders (id, amount) values (3, 7)")
    below.catch_up()
    said = "a sum would be Infinity"
    assert said in lab.value("select error from cdc.downstream_model where name = 'infinite'")
    with pytest.raises(psycopg2.errors.InvalidTextRepresentation, match=said):
        fill(lab)
    lab.transact("delete from lab.orders where id = 3")
    below.catch_up()
    fill(lab)
    assert lab.execute("select amount, b from lab.infinite") == [(Decimal("5.5"), False)]


def test_a_group_of_nulls_that_comes_and_goes_is_a_row_all_the_same(lab: RowsLab) -> None:
    (below,) = begin(lab, Random(0), "days")
    query = "select coalesce(channel, '?') as channel, count(*) as n from {days} group by 1"
    model = Above(lab, "per_channel", query)
    fill(lab)
    lab.transact("insert into lab.orders (id) values (1)")
    below.catch_up()
    assert lab.execute("select channel, n from lab.per_channel") == [("?", 1)]
    lab.transact("insert into lab.orders (id, channel) values (2, 'web')")
    below.catch_up()
    assert model.differences() == []
    lab.transact("delete from lab.orders where id = 1")
    below.catch_up()
    assert lab.execute("select channel, n from lab.per_channel") == [("web", 1)]


def test_changed_rows_that_meet_each_other_do_not_meet_each_in_turn(lab: RowsLab) -> None:
    """In a nested loop a batch of 8,000 rows took 10 seconds, by hashes 0.4."""
    begin(lab, Random(0), "customer")
    pairs = "from {customer} as a join {customer} as b on b.id = a.region_id"
    model = Above(lab, "pairs", f"select a.name, count(*) as n {pairs} group by 1")
    fill(lab)
    delta = lab.value("select cdc.write_delta(%s, 'lab.customer')", json.dumps(model.compiled))
    types = "text, text, lab.customer[], lab.customer[]"
    lab.execute(f"prepare meeting ({types}) as select $1, $2, added.* from ({delta}) as added")
    with lab.connection.cursor() as cursor:
        cursor.execute("set enable_seqscan = off; set enable_mergejoin = off")
        cursor.execute("set plan_cache_mode = force_generic_plan")
        cursor.execute("explain execute meeting('', '', '{}', '{}')")
        plan = "\n".join(line for (line,) in cursor.fetchall())
        cursor.execute("reset all; deallocate meeting")
    hashed = re.compile(r"Hash Join[^\n]*\n +Hash Cond[^\n]*\n +-> +CTE Scan on changed")
    assert hashed.search(plan), plan


@pytest.mark.parametrize("seed", range(3))
def test_each_model_equals_its_query_over_random_histories(lab: RowsLab, seed: int) -> None:
    rng = Random(seed)
    below = begin(lab, rng, *BELOW)
    for _ in range(40):
        lab.transact(change(rng))
    for model in below:
        model.catch_up()
    above = [Above(lab, name, query) for name, query in ABOVE.items()]
    assert lab.execute(NOT_ABOVE) == []
    assert fill(lab) >= len(above)
    followed = 0
    for _ in range(40):
        for _ in range(rng.randint(1, 4)):
            lab.transact(*(change(rng) for _ in range(rng.randint(1, 4))))
        rng.shuffle(below)
        for model in below:
            if rng.random() < 0.8:
                model.catch_up()
                failed = lab.execute(
                    "select model_name, error from cdc.downstream_model where error is not null"
                )
                assert failed == []
        asked = lab.execute("select distinct reason from cdc.to_fill")
        assert asked in ([], [("it was built again",)])
        followed += fill(lab) == 0
        for each in above:
            assert each.differences() == [], each.name
    assert followed > 20
