"""TPC-H under changes of every table: each view equals its query on the source's tables."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from examples.tpch import example
from testkit.databases import Database
from testkit.project import host_project
from testkit.system import System


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


@pytest.fixture
def trade(database: Database, tmp_path: Path) -> Trade:
    made = Trade(database, tmp_path)
    made.must("setup")
    made.do("dbt", "run", "--project-dir", str(made.project))
    made.spark_job("spark-submit spark/seed.py")
    made.must("run", "--once", "--build")
    return made


@pytest.mark.slow
def test_each_view_equals_its_query_whatever_the_tables_do(trade: Trade) -> None:
    for view, columns in example.COLUMNS.items():
        own = f"select * from analytics.{view}"
        assert trade.rows(own) == trade.rows(example.query(view)), view
        named = (
            "select attname::text from pg_attribute where attrelid = %s::regclass order by attnum"
        )
        found = trade.source.execute(named, f"analytics.{view}")
        assert [name for (name,) in found] == columns.split(), view
    for seed in range(3):
        traffic = example.traffic(trade.dsns[0], seed=seed, rate=None, truncates=True)
        for _ in range(2):
            traffic.run(12)
            trade.must("run", "--once", "--build")
            assert trade.wrong() == {}
            states = trade.source.execute("select distinct state from cdc.model_state")
            assert states == [("follows",)]
