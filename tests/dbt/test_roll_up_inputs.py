"""A roll-up follows exactly the models that it names, whatever became of these."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from loader.setup.roll_ups import declared_roll_ups
from loader.staging import registration
from testkit.commands import ROOT
from testkit.servers import Cluster, administer, connect_target
from tests.dbt.project import Project, messages
from tests.dbt.staged import (
    DATABASE,
    SLOT,
    STAGING,
    Warehouse,
    make_templates,
    set_environment,
)
from tests.dbt.workload import change

FACT = """{{{{ waltally.fact(
    tables={{'rows': 'public.{0}'}},
    dimensions={{'shop': 'integer', 'product': 'integer'}},
    measures={{'n': {{'count': 'rows'}}, 'amount': {{'sum': 'amount', 'type': '{1}'}}}},
) }}}}"""
ROWS = """{{{{ waltally.current_rows(
    table='public.{0}', key=['id'], columns={{'id': 'integer', 'name': 'text'}},
) }}}}"""
MODELS = {
    "ft_o": FACT.format("o", "numeric(5, 2)"),
    "ft_o2": FACT.format("o2", "bigint"),
    "homes": ROWS.format("homes"),
    "works": ROWS.format("works"),
}
TEMPLATE = "waltally_shops"
HOME, WORK = (
    f"'{name}': {{'rows': ref('{name}s'), 'by': {{'id': 'shop'}}}}" for name in ("home", "work")
)


def rolled(fact: str = "ref('ft_o')", lookups: str = "", **named: Any) -> str:
    """Return a roll-up of the number of rows and the amount, by home, work or nothing else."""
    columns = {name: f"{name}.name" for name in ("home", "work") if f"'{name}':" in lookups}
    declared = {
        "dimensions": columns or {"shop": "shop"},
        "measures": {"n": {"sum": "n"}, "amount": {"sum": "amount"}},
        **named,
    }
    words = ", ".join(f"{key}={value!r}" for key, value in declared.items())
    return f"{{{{ waltally.roll_up(fact={fact}, lookups={{{lookups}}}, {words}) }}}}"


class OwnProject(Project):
    """The project with these models in place of the examples; each change is parsed again."""

    def __init__(self, home: Path, models: Mapping[str, str]) -> None:
        super().__init__(home)
        (home / "examples").unlink()
        (home / "examples").mkdir()
        self.write(**models)

    def write(self, **models: str) -> None:
        """Write models; an empty one is removed."""
        self._manifests.clear()
        for name, body in models.items():
            (self.home / "examples" / f"{name}.sql").write_text(body)
            if not body:
                (self.home / "examples" / f"{name}.sql").unlink()


class Shops:
    """A warehouse of orders by shop and product, with the names of the shops' homes and works."""

    def __init__(self, warehouse: Warehouse, home: Path) -> None:
        self.warehouse = warehouse
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        self.project = warehouse.project = OwnProject(home, MODELS)
        self.next = 0

    def write(self, **models: str) -> None:
        self.project.write(**models)
        self.warehouse.execute("delete from cdc.fact")
        self.warehouse.register(*self.project.facts())

    def build(self, *words: str) -> None:
        done = self.warehouse.dbt("run", "--exclude", "path:dbt_project", *words)
        assert done.success, messages(done)

    def name(self, table: str, key: int, name: str, old: bool = False) -> None:
        row = {"id": key, "name": name}
        self.warehouse.append(
            [change("U" if old else "I", f"public.{table}", {"id": key} if old else None, row)]
        )

    def order(self, table: str, shop: int, count: int = 1, amount: float = 1) -> None:
        orders = []
        for _ in range(count):
            self.next += 1
            row = {"shop": shop, "product": self.next % 3, "amount": amount}
            orders.append(change("I", f"public.{table}", new=row))
        self.warehouse.append(orders)

    def apply(self) -> None:
        self.warehouse.apply()

    def rows(self, table: str = "analytics.roll", columns: str = "") -> list[tuple[Any, ...]]:
        listed = columns or "(to_jsonb(r) - 'id' - 'n' - 'amount')::text, n"
        found = self.warehouse.execute(f"select {listed} from {table} as r where n <> 0")
        return sorted(found, key=repr)

    def state(self, model: str = "analytics.roll") -> tuple[str, str | None, str | None]:
        ((state, reason, remedy),) = self.warehouse.execute(
            "select state, reason, remedy from cdc.fact_state where relation = %s", model
        )
        return state, reason, remedy


@cache
def make_template(cluster: Cluster, project: Project) -> None:
    """Make the database that those of the shops are copied from, once for each server."""
    made = Warehouse(cluster, project, STAGING)
    done = made.dbt("run", "--select", "rejected_changes")
    assert done.success, messages(done)
    made.close()
    administer(cluster, f"alter database {DATABASE} rename to {TEMPLATE}")


@pytest.fixture
def shops(
    cluster: Cluster, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shops]:
    set_environment(cluster, monkeypatch)
    make_templates(cluster, project)
    make_template(cluster, project)
    warehouse = Warehouse(cluster, project, TEMPLATE)
    yield Shops(warehouse, tmp_path / "project")
    warehouse.close()


FOLLOWS = ("follows", None, None)


def test_it_takes_the_models_that_it_names_whatever_stands_before(shops: Shops) -> None:
    body = (
        "-- depends_on: {{ ref('ft_o2') }}\n{% set b = ref('works') %}{% set a = ref('homes') %}"
        "{% set old = ref('ft_o2') %}{% set new = ref('ft_o') %}"
    )
    lookups = ", ".join(
        f"'{name}': {{'rows': {rows}, 'by': {{'id': 'shop'}}}}"
        for name, rows in (("home", "a"), ("work", "b"))
    )
    top = rolled("ref('roll')", dimensions={"work": "work"})
    shops.write(roll=body + rolled("new", lookups), top=top)
    shops.order("o", 1, 7)
    shops.order("o2", 1, 50)
    shops.name("homes", 1, "h")
    shops.name("works", 1, "w")
    shops.build()
    shops.order("o", 1)
    shops.order("o2", 1)
    shops.apply()
    assert shops.rows() == [('{"home": "h", "work": "w"}', 8)]
    assert shops.rows("analytics.top") == [('{"work": "w"}', 8)]
    _, nodes = shops.project._parsed([])
    found = declared_roll_ups({name: node.to_dict() for name, node in nodes.items()})
    assert sorted(name for name, _ in found) == ["roll", "top"]


def test_a_former_input_changes_nothing(shops: Shops) -> None:
    shops.write(roll=rolled("ref('ft_o')", f"{HOME}, {WORK}"))
    shops.order("o", 1, 3)
    shops.order("o2", 1, 7)
    shops.name("homes", 1, "home")
    shops.name("works", 1, "work")
    shops.build()
    shops.write(roll=rolled("ref('ft_o2')", WORK))
    shops.build()
    shops.order("o", 1, 50)
    shops.name("homes", 1, "another", old=True)
    shops.apply()
    assert shops.rows() == [('{"work": "work"}', 7)]
    assert shops.state() == FOLLOWS
    # Functions of inputs that it has no more are gone, and nothing hangs on anybody's table.
    assert shops.warehouse.execute(
        "select proname::text from pg_proc where proname like 'roll%' order by 1"
    ) == [("roll__add_0",), ("roll__add_1",), ("roll__fill",), ("roll__merge",)]
    assert shops.warehouse.value("select count(*) from pg_trigger where not tgisinternal") == 0


@pytest.mark.parametrize("table", ["ft_o", "homes"])
def test_one_whose_input_was_emptied_by_hand_is_right_once_that_is_cured(
    shops: Shops, table: str
) -> None:
    shops.write(
        roll=rolled(lookups=HOME, measures={"n": {"sum": "n"}, "amount": {"max": "amount"}})
    )
    shops.order("o", 1, 3)
    shops.name("homes", 1, "h")
    shops.build()
    before = shops.rows()
    assert before == [('{"home": "h"}', 3)]
    shops.warehouse.execute(f"truncate analytics.{table}")
    counted: dict[str, dict[str, Any]] = {
        "ft_o": {"rows": {("1", str(product)): (1, 1) for product in range(3)}},
        "homes": {"rows": {("1", "h"): ()}},
    }
    shops.warehouse.seed_fact(table, counted[table])
    shops.build()
    assert shops.rows() == before
    shops.order("o", 1)
    shops.apply()
    assert shops.rows() == [('{"home": "h"}', 4)]


def test_it_waits_while_an_input_is_installed_otherwise_than_it_knows(shops: Shops) -> None:
    shops.write(roll=rolled("ref('ft_o2')"), top=rolled("ref('roll')"))
    shops.order("o2", 1, 3, amount=10)
    shops.build()
    shops.write(ft_o2=FACT.format("o2", "numeric(20, 2)"))
    shops.build("--select", "ft_o2")
    waits = (
        "waits",
        "analytics.ft_o2, which it is made of, is installed with another declaration than it was "
        "compiled for",
        "`dbt build`",
    )
    assert shops.state() == waits
    shops.order("o2", 1, 2, amount=0.25)
    shops.apply()
    assert shops.state() == waits
    shops.build()
    for model in ("roll", "top"):
        assert shops.state(f"analytics.{model}") == FOLLOWS
        assert [str(amount) for (amount,) in shops.rows(f"analytics.{model}", "amount")] == [
            "30.50"
        ]


def test_a_total_may_be_larger_than_a_measure_of_its_fact(shops: Shops) -> None:
    shops.write(
        roll=rolled(),
        wide=rolled("ref('ft_o2')"),
        declared=rolled(
            measures={"n": {"sum": "n"}, "amount": {"sum": "amount", "type": "numeric(9, 2)"}}
        ),
    )
    for _ in range(3):
        shops.order("o", 1, amount=600.25)
        shops.order("o2", 1, amount=9_000_000_000_000_000_000)
    shops.build()
    assert shops.state() == FOLLOWS
    assert [str(amount) for (amount,) in shops.rows(columns="amount")] == ["1800.75"]
    assert [int(amount) for (amount,) in shops.rows("analytics.wide", "amount")] == [27 * 10**18]
    types = (
        "select string_agg(format_type(atttypid, atttypmod), ' ' order by attname) from "
        "pg_attribute where attrelid = %s::regclass and attname in ('n', 'amount')"
    )
    found = [
        shops.warehouse.value(types, f"analytics.{name}") for name in ("roll", "wide", "declared")
    ]
    assert found == ["numeric bigint", "numeric bigint", "numeric(9,2) bigint"]


def test_a_sum_of_a_type_that_would_round_it_is_refused(shops: Shops) -> None:
    shops.write(
        roll=rolled(measures={"n": {"sum": "n"}, "amount": {"sum": "amount", "type": "bigint"}})
    )
    shops.warehouse.dbt("run", "--select", "ft_o")
    done = shops.warehouse.dbt("run", "--select", "roll")
    assert (
        "sum of measure amount is of type bigint, which would round amount of type numeric(5, 2); "
        "use a type of as many decimals, or none" in messages(done)
    )


def test_a_text_that_no_index_holds_leaves_one_row_out(shops: Shops) -> None:
    # Not compressed to less than an index takes.
    long = "".join(chr(0x4E00 + number * 7 % 20000) for number in range(2000))
    shops.write(
        roll=rolled(
            lookups=HOME,
            dimensions={"shop": "shop"},
            measures={"n": {"sum": "n"}, "amount": {"max": "home.name"}},
        ),
        by_name=rolled(lookups=f"{HOME}, {WORK}"),
    )
    for shop in (1, 2, 3):
        shops.order("o", shop, shop)
        shops.name("homes", shop, f"h{shop}")
        shops.name("works", shop, f"w{shop}")
    shops.build()
    listed = (
        "select fact, reason, payload::jsonb -> 'home' ->> 'id' from analytics.rejected_changes"
        " order by 1"
    )
    reason = "the value of name is longer than 1000 bytes"
    for refill in (False, True):
        shops.name("homes", 2, long, old=True)
        shops.order("o", 2)
        shops.order("o", 3)
        if refill:
            shops.warehouse.execute("update cdc.roll_up set is_due = true")
        shops.apply()
        for model in ("roll", "by_name"):
            assert shops.state(f"analytics.{model}") == FOLLOWS
        left = [f"{shop} {shop + refill}" for shop in (1, 3)]
        assert [row[0] for row in shops.rows()] == ['{"shop": 1}', '{"shop": 3}'], left
        assert len(shops.rows("analytics.by_name")) == 2
        found = shops.warehouse.execute(listed)
        assert found == [(f"analytics.{name}", reason, "2") for name in ("by_name", "roll")]
        shops.name("homes", 2, "short", old=True)
        shops.apply()
        assert shops.warehouse.execute(listed) == []
        assert '{"home": "short", "work": "w2"}' in dict(shops.rows("analytics.by_name"))
    assert dict(shops.rows()) == {'{"shop": 1}': 1, '{"shop": 2}': 4, '{"shop": 3}': 5}


def test_a_long_text_that_names_a_parent_stops_no_current_rows(shops: Shops) -> None:
    long = "".join(chr(0x4E00 + number * 7 % 20000) for number in range(2000))
    shops.write(
        by_code=ROWS.format("codes").replace("'id': 'integer'", "'id': 'text'"),
        roll=rolled(
            lookups=f"{HOME}, 'code': {{'rows': ref('by_code'), 'by': {{'id': 'home.name'}}}}",
            dimensions={"code": "code.name"},
        ),
    )
    for shop, name in ((1, "a"), (2, long)):
        shops.order("o", shop)
        shops.name("homes", shop, name)
    shops.warehouse.append([change("I", "public.codes", new={"id": "a", "name": "A"})])
    shops.build()
    assert shops.rows() == [('{"code": "A"}', 1), ('{"code": null}', 1)]
    shops.name("homes", 1, long, old=True)
    shops.apply()
    assert shops.state("analytics.homes")[0] == "follows"
    assert shops.rows() == [('{"code": null}', 2)]


def test_a_table_of_somebody_else_is_not_taken(shops: Shops) -> None:
    shops.build("--exclude", "path:dbt_project")
    shops.warehouse.execute("create table analytics.roll__values_0 as select 1 as kept")
    distinct = {"n": {"sum": "n"}, "amount": {"distinct": "product"}}
    shops.write(roll=rolled(measures=distinct))
    done = shops.warehouse.dbt("run", "--select", "roll")
    assert "needs a table analytics.roll__values_0, and there is another one" in messages(
        done
    ).replace('"', "")
    assert shops.warehouse.value("select kept from analytics.roll__values_0") == 1
    shops.warehouse.execute("drop table analytics.roll__values_0")
    shops.order("o", 1, 5)
    shops.build()
    assert shops.rows(columns="shop, n, amount") == [(1, 5, 3)]
    # One that it needs no more goes; another type is another table.
    shops.write(
        roll=rolled(
            lookups=HOME,
            dimensions={"shop": "shop"},
            measures={"n": {"sum": "n"}, "amount": {"max": "home.name"}},
        )
    )
    shops.name("homes", 1, "x")
    shops.build()
    assert shops.rows(columns="shop, n, amount") == [(1, 5, "x")]
    shops.write(roll=rolled())
    shops.build()
    tables = "select count(*) from pg_class where relname = 'roll__values_0'"
    assert shops.warehouse.value(tables) == 0


def test_one_in_another_schema_does_not_stop_the_other(shops: Shops) -> None:
    config = "{{ config(schema='marts') }}"
    distinct = {"n": {"sum": "n"}, "amount": {"distinct": "product"}}
    shops.write(roll=rolled(measures=distinct), top=rolled("ref('roll')"))
    shops.order("o", 1, 2)
    shops.build()
    shops.write(roll=config + rolled(measures=distinct), top=config + rolled("ref('roll')"))
    shops.build()
    shops.order("o", 1)
    shops.apply()
    for model in ("roll", "top"):
        assert shops.rows(f"analytics_marts.{model}", "shop, n, amount") == [(1, 3, 3)]
        assert shops.state(f"analytics_marts.{model}") == FOLLOWS
    # Nobody keeps the former roll; setup forgets the former top, which was made of that.
    with closing(connect_target(shops.warehouse.cluster.dsn(DATABASE), SLOT)) as target, target:
        declared = declared_roll_ups(
            {name: node.to_dict() for name, node in shops.project._parsed([])[1].items()}
        )
        registration.forget_roll_ups(target, "waltally", declared, {"analytics", "analytics_marts"})
    kept = "select model_name::text from cdc.roll_up order by 1"
    assert shops.warehouse.execute(kept) == [("analytics_marts.roll",), ("analytics_marts.top",)]


def test_a_parent_under_both_levels_moves_in_both(shops: Shops) -> None:
    """Whatever they are called: the upper one reads what the lower one held before."""
    lower = rolled(dimensions={"shop": "shop", "home": "home.name"}, lookups=HOME)
    a, d = (
        rolled(f"ref('{name}')", HOME, dimensions={"home": "home", "again": "home.name"})
        for name in "ad"
    )
    shops.write(a=lower, b=a, d=lower, c=d)
    for shop in (1, 2):
        shops.order("o", shop, shop)
        shops.name("homes", shop, f"h{shop}")
    shops.build()
    shops.name("homes", 1, "other", old=True)
    shops.apply()
    for model in ("b", "c"):
        assert shops.rows(f"analytics.{model}") == [
            ('{"home": "h2", "again": "h2"}', 2),
            ('{"home": "other", "again": "other"}', 1),
        ]


def test_a_row_that_somebody_writes_holds_up_no_other_model(shops: Shops) -> None:
    shops.write(roll=rolled(lookups=HOME), other=rolled("ref('ft_o2')", HOME))
    for table in ("o", "o2"):
        shops.order(table, 1, 2)
    shops.name("homes", 1, "h")
    shops.build()
    with shops.warehouse.holding("update analytics.homes set name = 'by hand'"):
        for table in ("o", "o2"):
            shops.order(table, 1)
        shops.warehouse.apply_once("front")
        errors = "select model_name from cdc.installed_model where error is not null"
        assert shops.warehouse.execute(errors) == []
        for model in ("roll", "other"):
            assert shops.state(f"analytics.{model}") == FOLLOWS
            assert shops.rows(f"analytics.{model}") == [('{"home": "h"}', 3)]


def test_what_a_superuser_has_built_is_given_to_the_roles(shops: Shops) -> None:
    """Each function that runs with its owner's rights has one of the two owners, and works."""
    distinct = {"n": {"sum": "n"}, "amount": {"distinct": "product"}}
    shops.write(roll=rolled(lookups=HOME, measures=distinct))
    shops.order("o", 1, 2)
    shops.name("homes", 1, "h")
    shops.build()
    names = {name: f"rolled_{name}" for name in ("loader", "dbt", "spark", "reader")}
    words = [word for name, role in names.items() for word in ("-v", f"{name}={role}")]
    roles = str(ROOT / "ops" / "roles.sql")
    subprocess.run(
        ["psql", "-X", "-v", "part=target", *words, "-f", roles],
        env={**os.environ, **shops.warehouse.cluster.environment(DATABASE)},
        check=True,
        capture_output=True,
    )
    found = shops.warehouse.execute(
        "select distinct pronamespace::regnamespace::text, proowner::regrole::text from pg_proc"
        " where prosecdef and pronamespace >= 16384"
        " union all select 'table', relowner::regrole::text from pg_class"
        " where relname = 'roll__values_0' order by 1"
    )
    assert found == [
        ("analytics", names["dbt"]),
        ("cdc", names["loader"]),
        ("table", names["dbt"]),
    ]
    for is_due in (False, True):
        shops.order("o", 1)
        shops.name("homes", 1, f"h{is_due}", old=True)
        shops.warehouse.execute("update cdc.roll_up set is_due = %s", is_due)
        shops.apply()
        assert shops.state() == FOLLOWS
    assert shops.rows(columns="home, n, amount") == [("hTrue", 4, 3)]


def test_one_that_is_locked_holds_up_nothing_else(shops: Shops) -> None:
    shops.write(locked=rolled(), roll=rolled())
    shops.order("o", 1, 2)
    shops.build()
    shops.warehouse.execute("update cdc.roll_up set is_due = true")
    lock = "select pg_advisory_xact_lock(cdc.lock_key('model', 'analytics.locked'))"
    with shops.warehouse.holding(lock):
        shops.warehouse.apply_once("behind")
        assert shops.state("analytics.locked")[0] == "waits"
        assert shops.state() == FOLLOWS
    # As another slot does that rebuilds the model.
    rebuild = "update cdc.model_watermark set moved_at = now() where model_name ~ 'o2'"
    with shops.warehouse.holding(rebuild):
        shops.order("o", 1)
        shops.warehouse.apply_once("front")
        assert len(shops.rows("analytics.ft_o", "n")) == 3
    shops.apply()
    assert shops.rows("analytics.locked", "n") == shops.rows(columns="n") == [(3,)]


def test_two_sessions_that_bring_it_two_inputs_lose_nothing(shops: Shops) -> None:
    shops.write(roll=rolled(lookups=HOME))
    shops.order("o", 1, 2)
    shops.name("homes", 1, "h")
    shops.build()
    hold = "update cdc.installed_model set error = %s, retry_at = %s where fact_name = 'homes'"
    shops.warehouse.execute(hold, "held", "infinity")
    shops.name("homes", 1, "moved", old=True)
    shops.order("o", 1)
    shops.warehouse.execute(hold, None, None)
    lock = "select pg_advisory_xact_lock(cdc.lock_key('model', 'analytics.roll'))"
    with shops.warehouse.holding(lock):
        # As if another session brought it something at this moment.
        shops.warehouse.apply_once("front")
        assert shops.state()[0] == "waits"
    shops.apply()
    assert shops.state() == FOLLOWS
    assert shops.rows() == [('{"home": "moved"}', 3)]
