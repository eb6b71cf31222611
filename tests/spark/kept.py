"""Models that are queries in a pipeline of a test: registered, installed, seeded, followed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testkit.databases import Database
from testkit.system import System
from tests.spark.support import run_command

TABLES = """
create table orders (
    id bigint generated always as identity primary key,
    placed_at timestamptz not null default now(), channel text, status text not null default 'new',
    amount numeric(12, 2), discount numeric(12, 2), note text
);
create table old_orders (like orders including all);
alter table orders replica identity full;
alter table old_orders replica identity full;
"""

BY_DAY = """
select (placed_at at time zone 'Europe/Berlin')::date as day, channel, count(*) as order_count,
    sum(amount) as amount, count(*) filter (where status = 'paid') as paid_count,
    round(avg(amount), 2) as average_amount
from {orders} where status <> 'draft' group by 1, 2
"""
TOTAL = "select count(*) as order_count, sum(amount - discount) as net from {orders}"
BOTH = """
select channel, count(*) as order_count, sum(amount) as amount from (
    select channel, amount from {orders} union all select channel, amount from {old_orders}
) as twain group by 1
"""
NUMBERS = "select note::integer % 10 as digit, count(*) as n from {orders} group by 1"
ROWS = "select id, channel, amount, placed_at from {orders} where status = 'paid'"
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "by_day": (BY_DAY, {"surrogate_key": "id"}),
    "total": (TOTAL, {}),
    "purged": (BOTH, {"ignore_deletes": ["public.old_orders"]}),
    "numbers": (NUMBERS, {}),
    "paid": (ROWS, {"timezone": "Europe/Berlin"}),
}


class Kept(System):
    """A source and its target, the same by default, with models that are queries."""

    def __init__(self, database: Database, home: Path, target: Database | None = None) -> None:
        super().__init__(database, home, target)
        self.source.execute(TABLES)
        self.target.execute("create schema analytics")

    def declare(self, models: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
        """Register these models and install them, as setup and dbt do."""
        sources = {
            f"source.shop.{name}": {
                "schema": "public",
                "identifier": name,
                "relation_name": f'"{self.source.name}"."public"."{name}"',
            }
            for name in ("orders", "old_orders")
        }
        nodes: dict[str, dict[str, Any]] = {
            f"model.shop.{name}": {
                "resource_type": "model",
                "name": name,
                "schema": "analytics",
                "alias": name,
                "config": {"materialized": "waltally", **options},
                "compiled_code": self.named(query),
                "depends_on": {"nodes": [each for each in sources if f"{{{each[12:]}}}" in query]},
            }
            for name, (query, options) in models.items()
        }
        text = {"metadata": {"project_name": "shop"}, "nodes": nodes, "sources": sources}
        path = self.home / "manifest.json"
        path.write_text(json.dumps(text))
        self.source.manifest = path
        self.must("setup")
        for node in nodes.values():
            named = [sources[each] for each in node["depends_on"]["nodes"]]
            self.target.execute(
                "select cdc.install_query(%s, 'analytics', %s, %s, %s, %s, %s,"
                " 'analytics.rejected_changes', null, true)",
                self.slot,
                node["name"],
                node["name"],
                node["compiled_code"],
                json.dumps(
                    [
                        {"relation": each["relation_name"], "table": f"public.{each['identifier']}"}
                        for each in named
                    ]
                ),
                json.dumps(models[node["name"]][1]),
            )

    def named(self, query: str) -> str:
        """Return the query over the tables as dbt names them."""
        for name in ("orders", "old_orders"):
            query = query.replace(f"{{{name}}}", f'"{self.source.name}"."public"."{name}"')
        return query

    def run(self, job: str, *flags: str) -> tuple[int, str, str]:
        """Run a job's command in this process; return exit code, output and errors."""
        return run_command(job, flags, self.environment())

    def must_run(self, job: str, *flags: str) -> str:
        """Run a job's command in this process; fail the test where it fails."""
        code, out, err = self.run(job, *flags)
        assert code == 0, out + err
        return out

    def write(self, rows: int, table: str = "orders") -> None:
        """Insert orders of several days and channels."""
        self.source.execute(
            f"insert into {table} (placed_at, channel, status, amount, discount, note)"
            " select timestamptz '2026-03-28 20:00+00' + n * interval '17 minutes',"
            " (array['web', 'shop', null])[1 + n %% 3],"
            " (array['new', 'paid', 'draft'])[1 + n %% 5 %% 3],"
            " case when n %% 7 > 0 then n * 1.01 end, n %% 4, n::text"
            " from generate_series(1, %s) as n",
            rows,
        )

    def apply(self) -> None:
        """Apply what is staged, as anybody may."""
        while self.target.execute(
            "select from cdc.apply(%s) as done where done.is_behind", self.slot
        ):
            pass

    def columns(self, name: str) -> list[str]:
        """Return the numbers that a model keeps, the part of each of its sources too."""
        return [
            column
            for (column,) in self.target.execute(
                "select name from cdc.list_columns((select declaration from cdc.fact"
                " where fact_name = %s)) where kind in ('kept', 'part') order by place",
                name,
            )
        ]
