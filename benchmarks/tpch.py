"""What keeping the queries of TPC-H costs and saves: derived from TPC-H, no TPC-H result.

python -m benchmarks.tpch --scale 0.1 --rounds 5

One server has the tables, the change log and the models of examples/tpch. *Read* are the 22 views
one after the other beside the 22 queries on the tables and beside `refresh materialized view` of
the same queries; the least of three times. A round changes 1,000 lines in one transaction, a third
each of inserts, updates and deletes, stages it and applies it by one `cdc.apply` of the front, in
a session that has done so before, as the loader's has; CPU is that of this session, by the
kernel's own clock. *Copies* are the rows models. Checked at the end: each view equals its query.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median

import psycopg2
from psycopg2.extensions import cursor as Cursor

from benchmarks import report, workload
from benchmarks.measure import run, say
from examples.tpch import example
from examples.tpch.changes import KEYS
from testkit.servers import Cluster

SERVER = {"shared_buffers": "1GB", "max_wal_size": "4GB", "work_mem": "64MB", "jit": "off"}
LINES = 999
WARMING = 2
CHANGE = """
create temp table chosen on commit drop as
select * from tpch.lineitem tablesample bernoulli ({share}) order by random() limit {two_thirds};
create temp table gone on commit drop as
select * from chosen order by l_orderkey, l_linenumber limit {third};
delete from tpch.lineitem as l using gone
where (l.l_orderkey, l.l_linenumber) = (gone.l_orderkey, gone.l_linenumber);
update tpch.lineitem as l
set
    l_quantity = 1 + (random() * 49)::integer, l_discount = round(random()::numeric / 10, 2),
    l_shipdate = date '1992-01-02' + (random() * 2500)::integer
from (select * from chosen except select * from gone) as other
where (l.l_orderkey, l.l_linenumber) = (other.l_orderkey, other.l_linenumber);
update gone set l_linenumber = l_linenumber + 10 * {round};
insert into tpch.lineitem select * from gone
"""


def measure(scale: float, rounds: int) -> list[report.Row]:
    """Fill, keep, read, change; return what it took. Raises RuntimeError where a view is wrong."""
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(SERVER))
        dsn = cluster.dsn("postgres")
        example.create(dsn)
        example.fill_scale(dsn, scale)
        project = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        workload.declare(project, {})
        shutil.copytree(example.EXAMPLE.project / "models", project / "models")
        shutil.copy(example.EXAMPLE.project / "dbt_project.yml", project)
        settings = workload.environment(cluster, cluster, "tpch", project)
        for program, *arguments in (
            (workload.LOADER, "setup"),
            (workload.BIN / "dbt", "run", "--quiet"),
            (workload.BIN / "spark-submit", "spark/seed.py"),
        ):
            run([program, *arguments], settings, {})
            say(f"{program.name}: done")
        session = stack.enter_context(closing(psycopg2.connect(dsn)))
        session.autocommit = True
        cursor = session.cursor()
        cursor.execute("set search_path to tpch; select from cdc.apply('tpch')")
        cursor.execute("vacuum analyze")
        found = [*_read(cursor), *_weigh(cursor)]
        samples = []
        for number in range(WARMING + rounds):
            cursor.execute(CHANGE.format(round=number + 1, **_share(scale)))
            run([workload.LOADER, "run", "--once"], settings, {})
            samples.append(_apply(cursor) / LINES * 1e6)
            say(f"round {number + 1} of {WARMING + rounds}: {samples[-1]:.0f} µs a line")
        for view in example.COLUMNS:
            own, asked = f"select * from analytics.{view}", f"({example.query(view)})"
            cursor.execute(f"({own} except all {asked}) union all ({asked} except all ({own}))")
            if wrong := cursor.fetchall():
                raise RuntimeError(f"{view}: {len(wrong)} rows differ, as {wrong[0]}")
        return [*found, _row("a changed line, µs of CPU", median(samples[WARMING:]), "150")]


def _row(what: str, value: float, goal: str = "") -> report.Row:
    return {"what": what, "value": value, "goal": goal}


def _share(scale: float) -> dict[str, float]:
    third = LINES // 3
    return {"share": min(100, LINES / scale / 20_000), "third": third, "two_thirds": 2 * third}


def _read(cursor: Cursor) -> Iterator[report.Row]:
    queries, views, refreshed = 0.0, 0.0, 0.0
    for view in example.COLUMNS:
        queries += (asked := _least_time(cursor, example.query(view)))
        views += (read := _least_time(cursor, f"select * from analytics.{view}"))
        cursor.execute(f"create materialized view public.{view} as {example.query(view)}")
        refreshed += _least_time(cursor, f"refresh materialized view public.{view}")
        cursor.execute(f"drop materialized view public.{view}")
        say(f"{view}: {read * 1000:.1f} ms, the query {asked * 1000:.0f} ms")
    yield _row("the 22 queries, ms", queries * 1000)
    yield _row("the 22 views, ms", views * 1000, f"{queries * 1000 / 40:.0f}")
    yield _row("refresh materialized view of all, ms", refreshed * 1000)


def _least_time(cursor: Cursor, statement: str) -> float:
    taken = []
    for _ in range(3):
        begun = time.monotonic()
        cursor.execute(statement)
        taken.append(time.monotonic() - begun)
    return min(taken)


def _weigh(cursor: Cursor) -> Iterator[report.Row]:
    cursor.execute(
        "select sum(pg_total_relation_size(oid)) filter (where n = 'tpch'),"
        " sum(pg_total_relation_size(oid)) filter (where n = 'analytics' and name = any (%s)),"
        " sum(pg_total_relation_size(oid)) filter (where n = 'analytics' and name <> all (%s))"
        " from (select oid, relname::text as name, relnamespace::regnamespace::text as n"
        " from pg_class where relkind = 'r') as one",
        (list(KEYS), list(KEYS)),
    )
    [(tables, copies, others)] = cursor.fetchall()
    yield _row("the tables, MB", float(tables) / 1e6)
    yield _row("models that are copies, MB", float(copies) / 1e6)
    yield _row("other models, MB", float(others) / 1e6, f"{float(tables) / 3e6:.0f}")


def _apply(cursor: Cursor) -> float:
    clock = Path(f"/proc/{cursor.connection.info.backend_pid}/schedstat")
    before = int(clock.read_text().split()[0])
    cursor.execute("select from cdc.apply('tpch', part => 'front')")
    return (int(clock.read_text().split()[0]) - before) / 1e9


def main() -> None:
    """Measure, and print a table."""
    parser = report.parser(__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="of the tables (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    options = parser.parse_args()
    title = f"The queries of TPC-H at scale {options.scale:g}"
    report.show(title, measure(options.scale, options.rounds))


if __name__ == "__main__":
    main()
