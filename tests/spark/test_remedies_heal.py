"""Whatever state a model is in, what `cdc.model_state` says to do makes it follow.

Each remedy is carried out as it is printed, one after the other, until the model follows: a
remedy that is not true leads nowhere, or comes twice.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from testkit.commands import RunningLoader
from testkit.databases import Database, empty_database, paste
from testkit.project import host_project
from testkit.servers import Cluster
from testkit.system import System
from testkit.waiting import wait_until
from waltally import locks
from waltally.database import connect
from waltally.errors import BuildFailed

ORDERS = """
    create table orders (id bigserial primary key, state text not null, amount numeric not null);
    create table refunds (id bigserial primary key, reason text not null);
    alter table orders replica identity full; alter table refunds replica identity full;
    insert into orders (state, amount) select 's' || i % 4, i from generate_series(1, 200) as i;
    insert into refunds (reason) select 'r' || i % 3 from generate_series(1, 50) as i
"""
COUNTED = "count(*) as row_count"
SUMMED = "sum(amount) as total"
NARROW = "sum(amount)::numeric(8, 2) as total"
REFUNDS = """
{{ config(materialized='waltally') }}
select reason, count(*) as row_count from {{ source('app', 'refunds') }} group by 1
"""
ABOVE = """
{{ config(materialized='waltally') }}
select state as initial, sum(row_count) as row_count, count(distinct state) as states
from {{ ref('ft_orders') }} group by 1
"""
SOURCES = "sources: [{name: app, schema: public, tables: [{name: orders}, {name: refunds}]}]\n"
HELD = {
    "ft_orders": ("state", "state", "orders"),
    "ft_refunds": ("reason", "reason", "refunds"),
    "ru_orders": ("initial", "state", "orders"),
}
"""By model its dimension, the column that this counts, and the table."""
PATIENCE = 1.0
"""Seconds that what runs has to do its part, before a remedy is carried out."""
STEPS = 6
"""More remedies than that no state needs, one after the other."""


def orders(measures: str, engine: str) -> str:
    return (
        f"{{{{ config(materialized='waltally', engine='{engine}') }}}}"
        f" select state, {measures} from {{{{ source('app', 'orders') }}}} group by 1"
    )


class Site(System):
    """Orders and refunds, a model of each, one above, and whoever operates them."""

    def __init__(self, source: Database, home: Path, engine: str) -> None:
        super().__init__(source, home)
        self.engine = engine
        self.models = {
            "ft_orders": orders(COUNTED, engine),
            "ft_refunds": REFUNDS,
            "ru_orders": ABOVE,
        }
        self.running: RunningLoader | None = None
        self.stack = ExitStack()

    # What a person declares.

    def declare(self, **models: str) -> None:
        """Write the project with these models changed."""
        self.models |= models
        shutil.rmtree(self.home / "host", ignore_errors=True)
        self.project = host_project(self.home, self.models)
        (self.project / "models" / "sources.yml").write_text(SOURCES)
        self.given["LOADER_MANIFEST"] = ""  # the loader parses the project

    def write(self) -> None:
        """Change rows of both tables."""
        self.source.execute(
            "insert into orders (state, amount) select 'new', i from generate_series(1, 3) as i;"
            "update orders set state = 'moved' where id % 7 = (select max(id) % 7 from orders);"
            "delete from orders where id = (select min(id) from orders);"
            "insert into refunds (reason) values ('r9')"
        )

    # The services that run.

    def run_loader(self) -> None:
        """Let `loader run --build` run from here on."""
        if self.running is None or self.running.process.poll() is not None:
            self.running = self.stack.enter_context(self.start("--build"))
            self.running.wait_for("following the slot")

    def stop_loader(self) -> None:
        if self.running is not None:
            self.running.end()
            self.running = None

    # What is said, and how it is done.

    def state(self, model: str) -> tuple[str, str | None, str | None]:
        """State, reason and remedy of a model, as the view says them."""
        rows = self.source.execute(
            "select state, reason, remedy from cdc.model_state where slot_name = %s"
            " and model_name = %s",
            self.slot,
            model,
        )
        assert rows, f"{model} has no state"
        return rows[0]

    def carry_out(self, model: str, remedy: str) -> None:
        """Do what a remedy of a model says, in its order; of alternatives the first one."""
        if remedy.startswith("nothing is needed"):
            return
        if "delete from" in remedy:
            paste(self.source.cluster, self.source.name, remedy.split(" -- ")[0])
        remedy = remedy.partition("; to do without")[0]
        commands = re.findall(r"`([^`]+)`(?: or `[^`]+`)?", remedy)
        assert commands or "delete from" in remedy, remedy
        for command in commands:
            words = command.split()
            variables = dict(word.split("=") for word in words if re.match(r"[A-Z_]+=", word))
            words = words[len(variables) :]
            if words[:2] == ["loader", "run"]:
                self.run_loader()
            elif words[0] == "spark-submit":
                if "spark/apply.py" in words:
                    # A follower would not end, and once for all fails where another model waits.
                    fed = "ft_orders" if model == "ru_orders" else model
                    words += ["--once", "--model", fed]
                self.spark_job(" ".join(words), **variables)
            else:
                self.do(words[0], *words[1:], **variables)

    def told(self, model: str) -> str | None:
        """What is said of a model, with its remedy; None where it follows."""
        state, reason, remedy = self.state(model)
        return None if (state, reason) == ("follows", None) else f"{state}: {reason}. Try: {remedy}"

    def settled(self, model: str, seconds: float) -> bool:
        """Give what runs the time to do its part; return whether the model follows."""
        with suppress(AssertionError):
            wait_until(lambda: not self.told(model), "it follows", seconds if self.running else 0)
        return not self.told(model)

    def heal(self, model: str) -> list[str]:
        """Carry out what is said until the model follows; return what was said."""
        said: list[str] = []
        while not self.settled(model, PATIENCE):
            # What was done may need its time.
            wait_until(lambda: self.told(model) not in said, f"it helps {model}: {said}", 20)
            if told := self.told(model):
                assert len(said) < STEPS, said
                said.append(told)
                self.carry_out(model, told.partition(". Try: ")[2])
        return said

    def apply(self) -> None:
        """Apply what is written, where no loader that runs does so by itself."""
        if self.running is None:
            self.loader("run", "--once", "--build")
        if self.engine == "spark":
            if self.running is not None:
                self.wait_for_log()
            self.spark_job("spark-submit spark/apply.py --once")
            if self.running is None:
                self.must("run", "--once", "--build")

    def must_be_exact(self) -> None:
        """Everything that is written is applied, and each model has what a query has."""
        self.apply()

        def is_right(model: str) -> bool:
            held, counted, table = HELD[model]
            query = "select {}, {} from {} order by 1"
            found = query.format(held, "row_count", f"analytics.{model} where row_count <> 0")
            wanted = query.format(counted, "count(*)", f"{table} group by 1")
            return self.source.execute(found) == self.source.execute(wanted)

        def differing() -> list[str]:
            return [model for model in HELD if not is_right(model)]

        try:
            wait_until(lambda: not differing(), seconds=30)
        except AssertionError:
            raise AssertionError({model: self.state(model) for model in differing()}) from None


# How a model comes into each state. Each returns the model that is healed.


def new_model(site: Site) -> str:
    """dbt has not installed it."""
    site.declare(ft_amounts=orders(SUMMED, site.engine))
    site.must("setup")
    return "ft_amounts"


def built_before_setup(site: Site) -> str:
    """It is not registered."""
    site.declare(ft_amounts=orders(f"{COUNTED}, {SUMMED}", site.engine))
    site.source.execute("delete from cdc.registered_model where declared_name = 'ft_amounts'")
    site.call("dbt", "build")
    return "ft_amounts"


def changed_and_registered(site: Site) -> str:
    """dbt has installed what it was before."""
    site.declare(ft_orders=orders(f"{COUNTED}, {SUMMED}", site.engine))
    site.must("setup")
    return "ft_orders"


def changed_and_built(site: Site) -> str:
    """It is registered as it was before."""
    site.declare(ft_orders=orders(COUNTED, site.engine))
    site.call("dbt", "build")
    return "ft_orders"


def log_lacks_the_table(site: Site) -> str:
    """As where DDL has changed rows. Nothing is missing before something more is staged."""
    site.source.execute(
        "update cdc.logged_table set held_since ="
        " jsonb_build_object('*', pg_current_wal_insert_lsn()) where table_name = 'orders'"
    )
    site.write()
    if site.running is None:
        site.must("run", "--once")
    else:
        site.wait_for_log()
    return "ft_orders"


def emptied_by_hand(site: Site) -> str:
    """Somebody has truncated the model: its state does not know, the seed cures it."""
    site.source.execute("truncate analytics.ft_orders")
    site.spark_job("spark-submit spark/seed.py --model ft_orders")
    return "ft_orders"


def total_outgrown(site: Site) -> str:
    """A total does not fit the type of its measure. The model alone stops, as it was."""
    site.declare(ft_orders=orders(f"{COUNTED}, {NARROW}", site.engine))
    site.must("setup")
    site.heal("ft_orders")
    site.source.execute("insert into orders (state, amount) values ('huge', 999999.99)")
    site.must_be_exact()
    site.source.execute("insert into orders (state, amount) values ('huge', 0.01)")
    site.write()
    with suppress(BuildFailed):
        site.apply()
    wait_until(lambda: site.state("ft_orders")[0] == "failed", "it does not fit")
    huge = "select total from analytics.ft_orders where state = 'huge'"
    assert site.source.value(huge) == Decimal("999999.99")
    assert site.told("ft_refunds") is None
    # What the remedy cannot do for the operator.
    site.declare(ft_orders=orders(f"{COUNTED}, {SUMMED}", site.engine))
    return "ft_orders"


OF_ORDERS = "where declared_name = 'ft_orders'"
BY_SQL = {
    "the baseline is gone": f"delete from cdc.baseline {OF_ORDERS}",
    "a refresh is asked": f"update cdc.installed_model set is_refresh_asked = true {OF_ORDERS}",
    "the models are newer than the log": (
        "update cdc.model_watermark set applied_lsn = applied_lsn + 1000000000"
        " where model_name = 'analytics.ft_orders'"
    ),
    "the seed is of another cluster": (
        "update cdc.baseline set system_identifier = '2', baseline_id = gen_random_uuid()"
        f" {OF_ORDERS}"
    ),
    "a fill is asked": "insert into cdc.to_fill values ('analytics.ru_orders', 'a test asks')",
}


def broken(site: Site, way: str) -> str:
    site.source.execute(BY_SQL[way])
    return "ru_orders" if "ru_orders" in BY_SQL[way] else "ft_orders"


Way = Callable[[Site], str]
WAYS: dict[str, Way] = {
    each.__name__: each
    for each in (new_model, built_before_setup, changed_and_registered, changed_and_built)
}
WAYS |= {way: partial(broken, way=way) for way in BY_SQL}
WAYS |= {each.__name__: each for each in (log_lacks_the_table, emptied_by_hand, total_outgrown)}


@pytest.fixture
def database(cluster: Cluster) -> Iterator[Database]:
    with empty_database(cluster, "healed") as made:
        made.execute(ORDERS)
        yield made


@contextmanager
def seed_under_way(site: Site) -> Iterator[None]:
    """Hold what a seed holds while it counts the models."""
    with closing(connect(site.dsns[1], "target")) as seed:
        locks.hold(seed, "seed", site.slot)
        for model in (*site.models, "ft_amounts"):
            seed.ask(
                "select pg_advisory_lock(cdc.lock_key('seeding', %s, %s))",
                (site.slot, f"analytics.{model}"),
            )
        yield


CASES = [("database", False, True), ("spark", True, True), ("spark", False, False)]
"""Who applies the orders, whether a loader runs, and whether a seed counts meanwhile."""


def test_what_is_said_heals_each_state_where_the_log_holds_everything(
    database: Database, tmp_path: Path
) -> None:
    site = Site(database, tmp_path, "database")
    database.execute("truncate orders, refunds")
    with site.stack:
        begin(site)
        # After these no seed is needed.
        for way in (
            *("built_before_setup", "changed_and_registered"),
            *("a refresh is asked", "a fill is asked"),
        ):
            go(site, way, has_loader=True, has_seed=False)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "has_loader", "has_seed"), CASES)
def test_what_is_said_heals_each_state(
    database: Database, tmp_path: Path, engine: str, has_loader: bool, has_seed: bool
) -> None:
    """One after the other in one system, so that each way begins where the one before led."""
    site = Site(database, tmp_path, engine)
    with site.stack:
        begin(site, "spark-submit spark/seed.py")
        for way in WAYS:
            go(site, way, has_loader, has_seed)


def begin(site: Site, seed: str | None = None) -> None:
    """Bring every model to where it follows."""
    site.declare()
    site.must("setup")
    site.do("dbt", "build")
    site.run_loader()
    if seed is not None:
        site.spark_job(seed)
    for model in site.models:
        site.heal(model)


def go(site: Site, way: str, has_loader: bool, has_seed: bool) -> None:
    """Go a way, and do what is said until the model follows and all are exact."""
    if has_loader:
        site.run_loader()
    else:
        site.stop_loader()
    site.write()
    remedy = None
    # A way that seeds would wait for that seed.
    has_seed &= way not in ("emptied_by_hand", "total_outgrown")
    with seed_under_way(site) if has_seed else nullcontext():
        model = WAYS[way](site)
        if has_seed and not site.settled(model, PATIENCE):
            _, reason, remedy = site.state(model)
            said = f"{way}: {reason}. Try: {remedy}"
            assert remedy and "spark/seed.py" not in remedy.split("`loader setup`")[0], said
    if remedy and "seed" in remedy.split("`loader setup`")[0]:
        # The seed ends: what it says to wait for.
        site.spark_job(f"spark-submit spark/seed.py --model {model}")
    # What is wrong with a table is wrong for each model of it.
    for name in (model, *site.models):
        for said in site.heal(name):
            print(way, name, said)
    site.write()
    site.must_be_exact()
