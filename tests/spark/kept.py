"""Models that are queries in a pipeline of a test: registered, installed, seeded, followed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from testkit.databases import Database, empty_database
from testkit.queries import QuerySystem
from testkit.servers import Cluster
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
LISTED = "select id, channel, amount from {orders}"
CHANNELS = "select channel, count(*) as order_count, sum(amount) as amount from {listed} group by 1"
SPREAD = """
select channel, count(*) as order_count, max(amount) as highest,
    count(distinct amount) as amount_count from {listed} group by 1
"""
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "by_day": (BY_DAY, {"surrogate_key": "id"}),
    "total": (TOTAL, {}),
    "purged": (BOTH, {"ignore_deletes": ["public.old_orders"]}),
    "numbers": (NUMBERS, {}),
    "paid": (ROWS, {"timezone": "Europe/Berlin"}),
    "listed": (LISTED, {}),
    "channels": (CHANNELS, {}),
    "spread": (SPREAD, {}),
}
DEPENDENTS = ("channels", "spread")
"""A fact over models and a roll-up, over rows that nothing else reads."""


class Kept(QuerySystem):
    """A source and its target, the same by default, with models that are queries."""

    schema = "public"

    def __init__(self, database: Database, home: Path, target: Database | None = None) -> None:
        super().__init__(database, home, target)
        self.source.execute(TABLES)
        self.said = ""
        """What the last audit said beside its report."""

    def run(self, job: str, *flags: str) -> tuple[int, str, str]:
        """Run a job's command in this process; return exit code, output and errors."""
        return run_command(job, flags, self.environment())

    def must_run(self, job: str, *flags: str) -> str:
        """Run a job's command in this process; fail the test where it fails."""
        code, out, err = self.run(job, *flags)
        assert code == 0, out + err
        return out

    def audit(self, *flags: str, code: int = 0) -> dict[str, Any]:
        """Audit, and return the report."""
        found, out, self.said = self.run("audit", "--json", *flags)
        assert found == code and out, out + self.said
        assert "Traceback" not in self.said
        assert not self.target.value(
            "select count(*) from pg_class where relname ~ '^moved_' and relkind = 'r'"
        )
        report: dict[str, Any] = json.loads(out)
        assert report["equal"] is (code == 0)
        return report

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

    def columns(self, name: str) -> list[str]:
        """Return the numbers that a model keeps, the part of each of its sources too."""
        return [
            column
            for (column,) in self.target.execute(
                "select own.name from (select model_name, declaration from"
                " cdc.registered_model union all select model_name, declaration from"
                " cdc.dependent_model) as model cross join cdc.list_columns(declaration) as own"
                " where model.model_name = %s and kind in ('state', 'part') order by ordinal",
                name,
            )
        ]


@contextmanager
def made(cluster: Cluster, home: Path, is_apart: bool = False, name: str = "") -> Iterator[Kept]:
    """Models of each kind that are right, with rows from before their seed and from after it."""
    with (
        empty_database(cluster, name) as database,
        empty_database(cluster) if is_apart else nullcontext() as target,
    ):
        kept = Kept(database, home, target)
        kept.write(300)
        kept.write(100, "old_orders")
        kept.keep(MODELS)
        kept.must_run("seed")
        kept.write(100)
        kept.source.execute("update orders set status = 'paid', amount = 3 where id % 9 = 1")
        kept.source.execute("delete from orders where id % 11 = 1")
        kept.source.execute("delete from old_orders where id % 3 = 1")
        kept.must("run", "--once")
        kept.apply()
        yield kept
