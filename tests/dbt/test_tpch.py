"""TPC-H under changes of every table: each view equals its query on the source's tables."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from examples.tpch import example
from examples.tpch.changes import TradeSession
from testkit.commands import wait_until
from testkit.databases import Database, empty_database
from testkit.project import host_project
from testkit.servers import Cluster
from testkit.system import System
from testkit.traffic import Sessions


class Trade(System):
    """The tables at a small scale, and the example's project."""

    def __init__(self, database: Database, home: Path) -> None:
        super().__init__(database, home)
        example.create(self.dsns[0])
        example.fill_scale(self.dsns[0], example.LEAST)
        self.project = host_project(home, {})
        shutil.copytree(
            example.EXAMPLE.project / "models", self.project / "models", dirs_exist_ok=True
        )
        for path in (self.project / "models" / "views").glob("*.sql"):
            path.write_text("{{ config(materialized='view') }}\n" + path.read_text())
        # It is none of the commands' business what other tests declare.
        self.given["LOADER_MANIFEST"] = ""
        self.source.execute("set search_path to tpch")

    def traffic(self, seed: int) -> Sessions[TradeSession]:
        return example.traffic(self.dsns[0], seed=seed, rate=None, truncates=True)

    def rows(self, asked: str) -> list[tuple[Any, ...]]:
        return [
            tuple(value.rstrip() if isinstance(value, str) else value for value in row)
            for row in self.source.execute(asked)
        ]

    def wrong(self) -> dict[str, Any]:
        """Return the views that are not equal to their queries, each with rows of both."""
        found = {}
        for view in example.COLUMNS:
            own, asked = (
                self.rows(f"select * from analytics.{view}"),
                self.rows(example.query(view)),
            )
            if sorted(own, key=repr) != sorted(asked, key=repr):
                found[view] = [row for row in own if row not in asked][:3], asked[:3]
        return found

    def states(self) -> set[str]:
        return {state for (state,) in self.source.execute("select state from cdc.model_state")}


@pytest.fixture(scope="module")
def trade(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trade]:
    with empty_database(cluster) as database:
        made = Trade(database, tmp_path_factory.mktemp("trade"))
        made.must("setup")
        made.do("dbt", "run", "--project-dir", str(made.project))
        made.spark_job("spark-submit spark/seed.py")
        made.must("run", "--once", "--build")
        yield made


def test_each_view_has_the_columns_and_the_order_of_its_query(trade: Trade) -> None:
    for view, columns in example.COLUMNS.items():
        own = f"select * from analytics.{view}"
        assert trade.rows(own) == trade.rows(example.query(view)), view
        named = (
            "select attname::text from pg_attribute where attrelid = %s::regclass order by attnum"
        )
        found = trade.source.execute(named, f"analytics.{view}")
        assert [name for (name,) in found] == columns.split(), view


@pytest.mark.parametrize("seed", range(3))
def test_each_view_equals_its_query_whatever_the_tables_do(trade: Trade, seed: int) -> None:
    traffic = trade.traffic(seed)
    for _ in range(2):
        traffic.run(12)
        trade.must("run", "--once", "--build")
        assert trade.wrong() == {}
        assert trade.states() == {"follows"}


def test_a_loader_that_is_killed_amid_an_apply_adds_nothing_twice(trade: Trade) -> None:
    waiting = (
        "select count(*) from pg_stat_activity"
        " where wait_event_type = 'Lock' and datname = current_database()"
    )
    traffic = trade.traffic(7)
    with trade.follow("--build") as running, closing(psycopg2.connect(trade.dsns[1])) as holder:
        traffic.run(5)
        holder.cursor().execute("lock table cdc.model_watermark in exclusive mode")
        traffic.run(5)
        wait_until(lambda: trade.source.value(waiting), "an apply waits")
        running.kill()
        assert running.process.returncode == -signal.SIGKILL
    traffic.run(5)
    trade.must("run", "--once", "--build")
    assert trade.wrong() == {}
