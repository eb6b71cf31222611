"""Whatever state a model is in, what `cdc.model_state` says to do makes it follow.

Each remedy is carried out as it is printed, one after the other, until the model follows: a
remedy that is not true leads nowhere, or comes twice.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from testkit.commands import RunningLoader
from testkit.databases import Database, empty_database
from testkit.project import host_project
from testkit.servers import Cluster
from testkit.system import System
from testkit.waiting import wait_until
from waltally import locks
from waltally.database import connect

ORDERS = """
    create table orders (id bigserial primary key, state text not null, amount numeric not null);
    alter table orders replica identity full;
    insert into orders (state, amount) select 's' || i % 4, i from generate_series(1, 200) as i
"""
WRITE = """
    insert into orders (state, amount) select 'new', i from generate_series(1, 3) as i;
    update orders set state = 'moved' where id % 7 = (select max(id) % 7 from orders);
    delete from orders where id = (select min(id) from orders)
"""
COUNTED = "count(*) as row_count"
SUMMED = "sum(amount) as total"
DEPENDENTS = """
{{ config(materialized='waltally') }}
select state as initial, sum(row_count) as row_count, count(distinct state) as states
from {{ ref('ft_orders') }} group by 1
"""
SOURCES = "sources: [{name: app, schema: public, tables: [{name: orders}]}]\n"
HELD = {"ft_orders": "state", "ru_orders": "initial"}
"""By model what it calls the state."""
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
    """Orders, a model of them, one above, and whoever operates them."""

    def __init__(self, source: Database, home: Path, engine: str) -> None:
        super().__init__(source, home)
        self.engine = engine
        self.models = {"ft_orders": orders(COUNTED, engine), "ru_orders": DEPENDENTS}
        self.running: RunningLoader | None = None
        self.stack = ExitStack()
        self.given = {"LOADER_MANIFEST": ""}  # the loader parses the project

    def declare(self, **models: str) -> None:
        """Write the project with these models changed."""
        self.models |= models
        shutil.rmtree(self.home / "host", ignore_errors=True)
        self.project = host_project(self.home, self.models)
        (self.project / "models" / "sources.yml").write_text(SOURCES)

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

    def stage(self) -> None:
        """Let what is committed be staged."""
        if self.running is None:
            self.must("run", "--once")
        else:
            self.wait_for_log()

    # What is said, and how it is done.

    def state(self, model: str) -> tuple[str, str | None, str | None]:
        """State, reason and remedy of a model, as the view says them."""
        said = "select state, reason, remedy from cdc.model_state where model_name = %s"
        return self.source.execute(said, model)[0]

    def carry_out(self, model: str, remedy: str) -> None:
        """Do what a remedy of a model says, in its order; of alternatives the first one."""
        commands = re.findall(r"`([^`]+)`(?: or `[^`]+`)?", remedy)
        assert commands or "nothing is needed" in remedy, remedy
        for command in commands:
            words = command.split()
            if words[:2] == ["loader", "run"]:
                self.run_loader()
            elif words[0] == "spark-submit":
                # A follower would not end, and once for all fails where another model waits.
                once = f" --once --model {model.replace('ru_', 'ft_')}"
                self.spark_job(command + once * ("apply.py" in command))
            else:
                self.do(*words)

    def told(self, model: str) -> str | None:
        """What is said of a model, with its remedy; None where it follows."""
        state, reason, remedy = self.state(model)
        return None if (state, reason) == ("follows", None) else f"{state}: {reason}. Try: {remedy}"

    def settled(self, model: str) -> bool:
        """Give what runs the time to do its part; return whether the model follows."""
        with suppress(AssertionError):
            wait_until(lambda: not self.told(model), seconds=PATIENCE if self.running else 0)
        return not self.told(model)

    def heal(self, model: str) -> None:
        """Carry out what is said until the model follows."""
        said: list[str] = []
        while not self.settled(model):
            # What was done may need its time.
            wait_until(lambda: self.told(model) not in said, f"it helps {model}: {said}", 20)
            if told := self.told(model):
                assert len(said) < STEPS, said
                said.append(told)
                self.carry_out(model, told.partition(". Try: ")[2])

    def must_be_exact(self) -> None:
        """Everything that is written is applied, and each model has what a query has."""
        if self.running is None:
            self.loader("run", "--once", "--build")
        if self.engine == "spark":
            self.stage()
            self.spark_job("spark-submit spark/apply.py --once")
            if self.running is None:
                self.must("run", "--once", "--build")
        counted = self.source.execute("select state, count(*) from orders group by 1 order by 1")

        def is_right(model: str) -> bool:
            held = f"select {HELD[model]}, row_count from analytics.{model} where row_count <> 0"
            return self.source.execute(f"{held} order by 1") == counted

        for model in HELD:
            wait_until(partial(is_right, model), f"{model} is right: {self.state(model)}")


class Way(NamedTuple):
    """How a model comes into a state: other measures, then SQL, then a command."""

    sql: str = "select"
    model: str = "ft_orders"
    measures: str = ""
    command: str = ""


OF_ORDERS = "where model_name = 'ft_orders'"
WAYS = {
    "another query is installed": Way(measures=f"{COUNTED}, {SUMMED}", command="dbt build"),
    # As where DDL has changed rows. Nothing is missing before something more is staged.
    "the log lacks the table": Way(
        "update cdc.logged_table set held_since ="
        " jsonb_build_object('*', pg_current_wal_insert_lsn()) where table_name = 'orders';" + WRITE
    ),
    "the baseline is gone": Way(f"delete from cdc.baseline {OF_ORDERS}"),
    "a refresh is asked": Way(
        f"update cdc.installed_model set is_refresh_asked = true {OF_ORDERS}"
    ),
    "a fill is asked": Way(
        "insert into cdc.to_fill values ('analytics.ru_orders', 'a test asks')", "ru_orders"
    ),
}


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
    database.execute("truncate orders")
    with site.stack:
        begin(site)
        # After these no seed is needed.
        for way in (*("another query is installed", "a refresh is asked", "a fill is asked"),):
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
    site.source.execute(WRITE)
    remedy = ""
    with seed_under_way(site) if has_seed else nullcontext():
        sql, model, measures, command = WAYS[way]
        if measures:
            site.declare(**{model: orders(measures, site.engine)})
        site.source.execute(sql)
        if command:
            site.call(*command.split())
        site.stage()
        if has_seed and not site.settled(model):
            _, reason, told = site.state(model)
            remedy = (told or "").split("`loader setup`")[0]
            assert told and "spark/seed.py" not in remedy, f"{way}: {reason}. Try: {told}"
    if "seed" in remedy:
        # The seed ends: what it says to wait for.
        site.spark_job(f"spark-submit spark/seed.py --model {model}")
    # What is wrong with a table is wrong for each model of it.
    for name in (model, *site.models):
        site.heal(name)
    site.source.execute(WRITE)
    site.must_be_exact()
