"""Roll-ups hold what a query over their inputs would give, whatever happens to those."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from waltally_jobs.auditing import roll_ups
from waltally_jobs.auditing.report import Difference

from testkit.commands import ROOT
from tests.dbt.staged import DATABASE, FACT, FOLLOWS, Warehouse
from tests.dbt.workload import change
from waltally.errors import SettingError
from waltally.facts import parse_roll_up
from waltally.tables import Table

MODELS = ("ft_customer_days", "customers", "regions", "ft_regions", "ft_channels")
ORDERS, CUSTOMERS, REGIONS = "sales.orders", "sales.customers", "sales.regions"
CHANNELS = (None, "web", "shop")

FAILED = "select model_name, error from cdc.installed_model where error <> ''"

# A query of its own for every measure, over the groups of the finer fact that are there.
REGIONS_QUERY = """
with finer as (
    select f.*, c.name as customer, c.since, r.name as region
    from analytics.ft_customer_days as f
    left join analytics.customers as c on c.id = f.customer_id
    left join analytics.regions as r on r.id = c.region_id
    where f.order_count <> 0
)

select
    channel, region, sum(order_count), sum(amount), count(distinct customer_id),
    count(distinct customer), max(since), min(day),
    (
        select percentile_disc(0.95) within group (order by each.hours)
        from finer as each, generate_series(1, each.order_count)
        where (each.channel, each.region) is not distinct from (finer.channel, finer.region)
    ),
    round(sum(amount) / nullif(sum(order_count), 0), 2)
from finer
group by channel, region
"""
REGIONS_TABLE = """
select channel, region, order_count, amount, customers, names, newest, first_day, p95_hours,
    average_amount
from analytics.ft_regions where order_count <> 0
"""
CHANNELS_QUERY = """
select channel, sum(order_count), count(distinct region), max(p95_hours)
from analytics.ft_regions where order_count <> 0 group by channel
"""
CHANNELS_TABLE = """
select channel, order_count, regions, longest from analytics.ft_channels where order_count <> 0
"""


class Shop:
    """Orders of customers of regions, and changes of them as the plugin prints them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows: dict[str, dict[int, dict[str, Any]]] = {
            ORDERS: {},
            CUSTOMERS: {},
            REGIONS: {},
        }
        self.next = 0

    def row(self, table: str, key: int) -> dict[str, Any]:
        pick = self.random
        if table == REGIONS:
            return {"id": key, "name": pick.choice(["north", "south", None])}
        if table == CUSTOMERS:
            return {
                "id": key,
                "region_id": pick.choice([None, 1, 2, 3, 4]),
                "since": f"2026-01-{pick.randint(1, 28):02}",
                "name": pick.choice(["Ann", "Bo", None]),
            }
        return {
            "id": key,
            "day": f"2026-02-{pick.randint(1, 4):02}",
            "channel": pick.choice(CHANNELS),
            "customer_id": pick.randint(1, 6),
            "hours": pick.randint(0, 9),
            "amount": pick.randint(1, 900) / 4,
        }

    def step(self, table: str = "") -> dict[str, Any]:
        table = table or self.random.choices([ORDERS, CUSTOMERS, REGIONS], [8, 3, 1])[0]
        rows = self.rows[table]
        if self.random.random() < 0.01:
            rows.clear()
            return change("T", table)
        key = self.random.randint(1, {ORDERS: 60, CUSTOMERS: 6, REGIONS: 4}[table])
        old = rows.get(key)
        if old is None:
            rows[key] = self.row(table, key)
            return change("I", table, new=rows[key])
        if self.random.random() < 0.3:
            del rows[key]
            return change("D", table, old)
        rows[key] = self.row(table, key)
        free = self.random.randint(1, 6)
        if table == CUSTOMERS and free not in rows and self.random.random() < 0.3:
            rows[free] = {**rows.pop(key), "id": free}
            return change("U", table, old, rows[free])
        return change("U", table, old, rows[key])

    def transaction(self) -> list[dict[str, Any]]:
        return [self.step() for _ in range(self.random.randint(1, 12))]


def audited(
    warehouse: Warehouse, model: str, recounts: Mapping[Table, str] = MappingProxyType({})
) -> list[tuple[int, int]]:
    """How many groups the audit finds, and how many that differ."""
    declaration = warehouse.value("select declaration from cdc.roll_up where fact_name = %s", model)
    found: list[tuple[int, int]] = warehouse.execute(
        roll_ups.difference_query(
            parse_roll_up(model, Table("analytics", model), declaration), recounts
        )
    )
    return found


def check(warehouse: Warehouse) -> None:
    for model in ("ft_regions", "ft_channels"):
        assert [different for _, different in audited(warehouse, model)] == [0]
    for table, query in [(REGIONS_TABLE, REGIONS_QUERY), (CHANNELS_TABLE, CHANNELS_QUERY)]:
        assert sorted(warehouse.execute(table), key=repr) == sorted(
            warehouse.execute(query), key=repr
        )


@pytest.fixture
def shop() -> Shop:
    return Shop(0)


@pytest.fixture
def rolled(warehouse: Warehouse, shop: Shop) -> Warehouse:
    """A warehouse with orders, whose roll-ups are filled."""
    warehouse.append(*(shop.transaction() for _ in range(30)))
    warehouse.build(*MODELS)
    return warehouse


def test_they_hold_what_a_query_over_their_inputs_gives(warehouse: Warehouse, shop: Shop) -> None:
    warehouse.append(*(shop.transaction() for _ in range(20)))
    warehouse.build(*MODELS)
    check(warehouse)
    # They are kept from here on: none is filled.
    warehouse.execute("alter function analytics.ft_regions__fill(text) security invoker")
    for _ in range(40):
        warehouse.append(shop.transaction())
        warehouse.build(*MODELS)
        check(warehouse)
    assert warehouse.value("select count(*) > 2 from analytics.ft_regions where order_count > 0")
    warehouse.execute("alter function analytics.ft_regions__fill(text) security definer")
    warehouse.append(*(shop.transaction() for _ in range(20)))
    warehouse.build(*MODELS, refresh=True)
    check(warehouse)


def refill(warehouse: Warehouse) -> None:
    """Have the roll-ups hold what their inputs hold, after a test has written into these."""
    warehouse.execute("update cdc.roll_up set is_due = true")
    warehouse.apply()


def state(warehouse: Warehouse, model: str = "ft_regions") -> tuple[str, str | None, str | None]:
    return warehouse.state(f"analytics.{model}")


def test_one_that_fails_stops_no_fact_and_is_filled_again(rolled: Warehouse, shop: Shop) -> None:
    rolled.execute(
        "alter table analytics.ft_regions add constraint stops check (order_count < 0) not valid"
    )
    rolled.append(*(shop.transaction() for _ in range(20)))
    states = {each.relation: each.state for each in rolled.apply()}
    assert states["analytics.ft_customer_days"] == "follows"
    assert state(rolled)[:2] == (
        "failed",
        'new row for relation "ft_regions" violates check constraint "stops"',
    )
    said = state(rolled, "ft_channels")[:2]
    assert said == ("waits", "analytics.ft_regions, which it is made of, is not filled yet")
    rolled.execute("alter table analytics.ft_regions drop constraint stops")
    rolled.execute("update cdc.roll_up set retry_at = null")
    rolled.append(*(shop.transaction() for _ in range(5)))
    rolled.build(*MODELS)
    check(rolled)


def test_a_row_under_which_much_lies_has_it_filled_apart(rolled: Warehouse, shop: Shop) -> None:
    ((key, count),) = rolled.execute(
        "select c.region_id, count(*) from analytics.ft_customer_days as f "
        "inner join analytics.customers as c on c.id = f.customer_id "
        "where c.region_id is not null group by 1 order by 2 desc limit 1"
    )
    assert count > 2
    old = shop.rows[REGIONS].get(key)
    new = {"id": key, "name": "elsewhere"}
    rolled.append([change("U" if old else "I", REGIONS, old, new)])
    # A twentieth of a slice is what is moved with the row.
    rolled.slice(8)
    rolled.apply_once("front")
    assert state(rolled)[:2] == ("waits", "it is not filled yet")
    rolled.build(*MODELS)
    assert state(rolled) == FOLLOWS
    check(rolled)


def test_batches_pass_over_the_inputs_of_one_that_is_filled(rolled: Warehouse, shop: Shop) -> None:
    rolled.execute("update cdc.roll_up set is_due = true")
    with rolled.waiting(rolled.stop("ft_regions"), rolled.apply_apart, "behind"):
        rolled.append(*(shop.transaction() for _ in range(20)))
        rolled.apply_once("front")
        # Else they have waited for the lock of a table, which others would have to wait for too.
        assert rolled.execute(FAILED) == []
    rolled.build(*MODELS)
    assert state(rolled) == FOLLOWS
    check(rolled)


def test_one_that_is_locked_waits_and_holds_up_nothing_else(rolled: Warehouse, shop: Shop) -> None:
    rolled.build(FACT)
    lock = "select pg_advisory_xact_lock(cdc.lock_key('model', 'analytics.ft_channels'))"
    with rolled.holding(lock):
        # As if another session brought it what another input has changed.
        rolled.append(*(shop.transaction() for _ in range(5)))
        rolled.apply_once("front")
        assert (state(rolled), state(rolled, "ft_channels")[0]) == (FOLLOWS, "waits")
        rolled.execute("update cdc.roll_up set is_due = true")
        rolled.apply_once("behind")
        assert (state(rolled), state(rolled, "ft_channels")[0]) == (FOLLOWS, "waits")
    rolled.apply()
    check(rolled)
    # As another slot does that rebuilds a fact of its own and ours.
    rebuild = "update cdc.model_watermark set moved_at = now() where model_name ~ 'service_stats'"
    with rolled.holding(rebuild):
        rolled.append(*(shop.transaction() for _ in range(5)))
        rolled.apply_once("front")
        assert state(rolled, "ft_channels") == FOLLOWS
        check(rolled)


def test_a_row_that_somebody_writes_holds_up_no_model(rolled: Warehouse, shop: Shop) -> None:
    with rolled.holding("update analytics.customers set name = 'by hand'"):
        rolled.append(*([shop.step(ORDERS)] for _ in range(5)))
        rolled.apply_once("front")
        assert rolled.execute(FAILED) == []
        for model in ("ft_regions", "ft_channels"):
            assert state(rolled, model) == FOLLOWS
        check(rolled)


def test_what_a_superuser_has_built_is_given_to_the_roles(rolled: Warehouse, shop: Shop) -> None:
    """Each function that runs with its owner's rights has one of the two owners, and works."""
    names = {name: f"rolled_{name}" for name in ("loader", "dbt", "spark", "reader")}
    words = [word for name, role in names.items() for word in ("-v", f"{name}={role}")]
    psql = ("psql", "-X", "-d", rolled.cluster.dsn(DATABASE), "-v", "part=target", *words)
    rolled.cluster.run(*psql, "-f", str(ROOT / "ops" / "roles.sql"))
    found = rolled.execute(
        "select distinct pronamespace::regnamespace::text, proowner::regrole::text from pg_proc"
        " where prosecdef and pronamespace >= 16384"
        " union select 'table', relowner::regrole::text from pg_class"
        " where relname ~ '__values_[0-9]$' order by 1"
    )
    owners = (("analytics", "dbt"), ("cdc", "loader"), ("table", "dbt"))
    assert found == [(place, names[role]) for place, role in owners]
    for is_due in (False, True):
        rolled.append(*(shop.transaction() for _ in range(5)))
        rolled.execute("update cdc.roll_up set is_due = %s", is_due)
        rolled.apply()
        assert state(rolled) == FOLLOWS
        check(rolled)


HELD = {
    "ft_customer_days": (
        "orders",
        "day::text, channel, customer_id::text, hours::text, order_count, amount",
    ),
    "customers": ("rows", "id::text, region_id::text, since::text, name, 1"),
}
"""By input its part, and in SQL the four texts of a row's group and what it adds."""


@pytest.mark.parametrize("model", HELD)
def test_one_whose_input_was_emptied_by_hand_is_right_once_that_is_cured(
    rolled: Warehouse, shop: Shop, model: str
) -> None:
    part, columns = HELD[model]
    rows = rolled.execute(f"select {columns} from analytics.{model}")
    rolled.execute(f"truncate analytics.{model}")
    rolled.seed_fact(model, {part: {tuple(row[:4]): row[4:] for row in rows}})
    for _ in range(2):
        rolled.build(*MODELS)
        assert state(rolled) == FOLLOWS
        check(rolled)
        rolled.append(shop.transaction())


def test_one_waits_while_its_inputs_are_at_different_positions(
    rolled: Warehouse, shop: Shop
) -> None:
    with rolled.holding("lock table analytics.customers in share mode"):
        rolled.append(*(shop.transaction() for _ in range(20)))
        rolled.apply_once()
        assert state(rolled)[0] == "waits"
    rolled.execute("update cdc.installed_model set retry_at = null")
    rolled.build(*MODELS)
    assert state(rolled) == FOLLOWS
    check(rolled)


def test_the_audit_finds_each_group_that_is_wrong(rolled: Warehouse) -> None:
    ((groups, _),) = audited(rolled, "ft_regions")
    assert groups > 2
    for column in ("order_count", "names", "newest", "first_day", "p95_hours"):
        rolled.execute("create table kept as table analytics.ft_regions")
        rolled.execute(
            f"update analytics.ft_regions set {column} = {column} + 1 where id = (select id from "
            "analytics.ft_regions where order_count > 1 and newest is not null limit 1)"
        )
        assert audited(rolled, "ft_regions") == [(groups, 1)]
        rolled.execute(
            f"update analytics.ft_regions as r set {column} = k.{column} from kept as k "
            "where k.id = r.id; drop table kept"
        )
    assert audited(rolled, "ft_regions") == [(groups, 0)]


def test_the_audit_finds_a_roll_up_that_is_wrong_as_its_input_is(rolled: Warehouse) -> None:
    """It is audited as if its inputs were right: here a row that the source does not have."""
    (declared,) = (each for each in rolled.project.facts() if each.name == "customers")
    names = [each.name for each in declared.dimensions]
    columns = ", ".join(f"{name}::text" for name in names)
    parent = (
        "id in (select customer_id from analytics.ft_customer_days where order_count > 0) limit 1"
    )
    (right,) = rolled.execute(f"select {columns} from analytics.customers where {parent}")
    (wrong,) = rolled.execute(
        f"update analytics.customers set name = 'nobody' where id = {right[0]} returning {columns}"
    )
    found = [
        Difference(dict(zip(names, row, strict=True)), "row_count", *counts)
        for row, counts in ((right, ("0", "1")), (wrong, ("1", "0")))
    ]
    refill(rolled)
    check(rolled)
    customers = {declared.relation: roll_ups.corrected(declared, found)}
    ((_, different),) = audited(rolled, "ft_regions", customers)
    assert different > 0


def test_what_dbts_role_has_stored_is_no_sql_for_others(warehouse: Warehouse) -> None:
    stored = "select declaration from kept.roll_up where fact_name = 'ft_regions'"
    declaration = warehouse.value(stored)
    relation = Table("analytics", "ft_regions")
    code = "bigint); drop table cdc.change_log; --"
    for part in ("dimensions", "measures", "values"):
        forged = copy.deepcopy(declaration)
        forged[part][0]["type"] = code
        with pytest.raises(SettingError, match=r"has bigint.* for a type"):
            parse_roll_up("ft_regions", relation, forged)
    forged = copy.deepcopy(declaration)
    for each in (*forged["dimensions"], *forged["values"], *forged["lookups"]):
        each.update({"sql": code, "relation": code, "alias": code})
    forged |= {"fact": code, "present": code, "present_column": code}
    said = roll_ups.difference_query(parse_roll_up("ft_regions", relation, forged), {})
    assert said.count(code) == said.count(f'"{code}"') > 2


def test_one_whose_fact_was_made_again_is_filled(rolled: Warehouse, shop: Shop) -> None:
    rolled.execute("drop table analytics.ft_customer_days cascade")
    rolled.must("run", "--select", *MODELS)
    rolled.append(*(shop.transaction() for _ in range(5)))
    rolled.build(*MODELS)
    check(rolled)


def test_a_changed_one_is_filled_again(rolled: Warehouse, shop: Shop) -> None:
    """With a measure less; then with a dimension more and another measure."""
    rolled.execute("alter table analytics.ft_channels add column note text")
    rolled.must("run", "--select", "ft_channels", "--vars", "changed: fewer")
    columns = "select attname from pg_attribute where attrelid = 'analytics.ft_channels'::regclass"
    held = {name for (name,) in rolled.execute(f"{columns} and attnum > 0 and not attisdropped")}
    assert ("longest" in held, "note" in held) == (False, True)
    rolled.must("run", "--select", "ft_channels", "--vars", "changed: roll_up")
    rolled.append(*(shop.transaction() for _ in range(5)))
    for _ in range(2):
        rolled.apply()
        assert state(rolled, "ft_channels") == FOLLOWS
        [(groups, different)] = audited(rolled, "ft_channels")
        assert (groups > 2, different) == (True, 0)
        of_table = "select channel, region, order_count, regions, newest from analytics.ft_channels"
        of_query = (
            "select channel, region, sum(order_count), count(distinct region), max(newest)"
            " from analytics.ft_regions where order_count <> 0 group by channel, region"
        )
        stored = rolled.execute(f"{of_table} where order_count <> 0")
        assert sorted(stored, key=repr) == sorted(rolled.execute(of_query), key=repr)
        # Then it is kept.
        rolled.append(*(shop.transaction() for _ in range(5)))
