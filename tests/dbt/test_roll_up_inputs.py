"""A roll-up follows exactly the models that it names, whatever became of these."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from loader.setup.roll_ups import declared_roll_ups
from loader.staging import registration
from testkit.servers import connect_target
from tests.dbt.project import Project
from tests.dbt.staged import DATABASE, FOLLOWS, SLOT, Warehouse
from tests.dbt.workload import change
from waltally.tables import Table

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
DISTINCT = {"n": {"sum": "n"}, "amount": {"distinct": "product"}}
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


class Shops:
    """A warehouse of orders by shop and product, with the names of the shops' homes and works."""

    def __init__(self, warehouse: Warehouse, home: Path) -> None:
        self.warehouse = warehouse
        self.project = warehouse.project = Project(home)
        (home / "examples").unlink()
        (home / "examples").mkdir()
        self.next = 0

    def write(self, **models: str) -> None:
        """Write models beside those of all tests, and register what they declare."""
        for name, body in {**MODELS, **models}.items():
            (self.project.home / "examples" / f"{name}.sql").write_text(body)
        self.project.forget()
        self.warehouse.execute("delete from cdc.fact")
        self.warehouse.register(*self.project.facts())

    def declared(self) -> tuple[tuple[str, Table], ...]:
        """The roll-ups as `loader setup` reads them."""
        return declared_roll_ups({node.name: node.to_dict() for node in self.project.nodes()})

    def build(self, *words: str) -> None:
        self.warehouse.must("run", "--exclude", "path:dbt_project", *words)

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

    def rows(self, table: str = "analytics.roll", columns: str = "") -> list[tuple[Any, ...]]:
        listed = columns or "(to_jsonb(r) - 'id' - 'n' - 'amount')::text, n"
        found = self.warehouse.execute(f"select {listed} from {table} as r where n <> 0")
        return sorted(found, key=repr)

    def state(self, model: str = "analytics.roll") -> tuple[str, str | None, str | None]:
        return self.warehouse.state(model)


@pytest.fixture
def shops(warehouse: Warehouse, tmp_path: Path) -> Shops:
    return Shops(warehouse, tmp_path)


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
    shops.warehouse.apply()
    assert shops.rows() == [('{"home": "h", "work": "w"}', 8)]
    assert shops.rows("analytics.top") == [('{"work": "w"}', 8)]
    assert sorted(name for name, _ in shops.declared()) == ["roll", "top"]


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
    shops.warehouse.apply()
    assert shops.rows() == [('{"work": "work"}', 7)]
    assert shops.state() == FOLLOWS
    # Functions of inputs that it has no more are gone, and nothing hangs on anybody's table.
    assert shops.warehouse.execute(
        "select proname::text from pg_proc where proname like 'roll%' order by 1"
    ) == [("roll__add_0",), ("roll__add_1",), ("roll__fill",), ("roll__merge",)]
    assert shops.warehouse.value("select count(*) from pg_trigger where not tgisinternal") == 0


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
    shops.warehouse.apply()
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
    shops.write(
        declared=rolled(measures={"n": {"sum": "n"}, "amount": {"sum": "amount", "type": "bigint"}})
    )
    assert (
        "sum of measure amount is of type bigint, which would round amount of type numeric(5, 2); "
        "use a type of as many decimals, or none"
    ) in shops.warehouse.must_fail("run", "--select", "declared")


def test_a_text_that_no_index_holds_leaves_one_row_out(shops: Shops) -> None:
    """And where it names a parent, the row has none, and current rows hold it."""
    # Not compressed to less than an index takes.
    long = "".join(chr(0x4E00 + number * 7 % 20000) for number in range(2000))
    shops.write(
        by_code=ROWS.format("codes").replace("'id': 'integer'", "'id': 'text'"),
        roll=rolled(
            lookups=HOME,
            dimensions={"shop": "shop"},
            measures={"n": {"sum": "n"}, "amount": {"max": "home.name"}},
        ),
        by_name=rolled(lookups=f"{HOME}, {WORK}"),
        coded=rolled(
            lookups=f"{HOME}, 'code': {{'rows': ref('by_code'), 'by': {{'id': 'home.name'}}}}",
            dimensions={"code": "code.name"},
        ),
    )
    shops.warehouse.append([change("I", "public.codes", new={"id": "h2", "name": "H"})])
    for shop in (1, 2, 3):
        shops.order("o", shop, shop)
        shops.name("homes", shop, f"h{shop}")
        shops.name("works", shop, f"w{shop}")
    shops.build()
    assert dict(shops.rows("analytics.coded")) == {'{"code": "H"}': 2, '{"code": null}': 4}
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
        shops.warehouse.apply()
        for model in ("homes", "roll", "by_name", "coded"):
            assert shops.state(f"analytics.{model}")[0] == "follows"
        assert [row[0] for row in shops.rows()] == ['{"shop": 1}', '{"shop": 3}']
        assert len(shops.rows("analytics.by_name")) == 2
        assert shops.rows("analytics.coded") == [('{"code": null}', 8 + 2 * refill)]
        found = shops.warehouse.execute(listed)
        assert found == [(f"analytics.{name}", reason, "2") for name in ("by_name", "roll")]
        shops.name("homes", 2, "short", old=True)
        shops.warehouse.apply()
        assert shops.warehouse.execute(listed) == []
        assert '{"home": "short", "work": "w2"}' in dict(shops.rows("analytics.by_name"))
    assert dict(shops.rows()) == {'{"shop": 1}': 1, '{"shop": 2}': 4, '{"shop": 3}': 5}


def test_a_table_of_somebody_else_is_not_taken(shops: Shops) -> None:
    shops.write(roll=rolled(measures=DISTINCT))
    shops.warehouse.execute("create table analytics.roll__values_0 as select 1 as kept")
    said = shops.warehouse.must_fail("run", "--exclude", "path:dbt_project").replace('"', "")
    assert "needs a table analytics.roll__values_0, and there is another one" in said
    assert shops.warehouse.value("select kept from analytics.roll__values_0") == 1
    shops.warehouse.execute("drop table analytics.roll__values_0")
    shops.order("o", 1, 5)
    shops.build()
    assert shops.rows(columns="shop, n, amount") == [(1, 5, 3)]
    # One that it needs no more goes.
    shops.write(roll=rolled())
    shops.build()
    tables = "select count(*) from pg_class where relname = 'roll__values_0'"
    assert shops.warehouse.value(tables) == 0


def test_one_in_another_schema_does_not_stop_the_other(shops: Shops) -> None:
    config = "{{ config(schema='marts') }}"
    shops.write(roll=rolled(measures=DISTINCT), top=rolled("ref('roll')"))
    shops.order("o", 1, 2)
    shops.build()
    shops.write(roll=config + rolled(measures=DISTINCT), top=config + rolled("ref('roll')"))
    shops.build()
    shops.order("o", 1)
    shops.warehouse.apply()
    for model in ("roll", "top"):
        assert shops.rows(f"analytics_marts.{model}", "shop, n, amount") == [(1, 3, 3)]
        assert shops.state(f"analytics_marts.{model}") == FOLLOWS
    # Nobody keeps the former roll; setup forgets the former top, which was made of that.
    with closing(connect_target(shops.warehouse.cluster.dsn(DATABASE), SLOT)) as target, target:
        schemas = {"analytics", "analytics_marts"}
        registration.forget_roll_ups(target, "waltally", shops.declared(), schemas)
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
    shops.warehouse.apply()
    for model in ("b", "c"):
        assert shops.rows(f"analytics.{model}") == [
            ('{"home": "h2", "again": "h2"}', 2),
            ('{"home": "other", "again": "other"}', 1),
        ]
