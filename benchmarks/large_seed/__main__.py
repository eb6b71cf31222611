"""A seed of many rows while the application writes: its time, and what it holds at the source.

python -m benchmarks.large_seed --rows 100000000 --few 10000 --many 1000000

Two tables of five columns have --rows rows in all. While the seed counts them, the loader follows,
and each second the application inserts 100 rows and updates 1,000 rows of a queue, with autovacuum
as it comes. Read each second: the WAL that slots hold, the age of the oldest snapshot, the size of
the queue and of the seed's temporary files. Checked: the fact equals a recount.
"""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg2

from benchmarks import report, workload
from benchmarks.measure import ROOT, run, say, server_cpu
from benchmarks.seed.memory import PeakMemory
from testkit.servers import Cluster

SLOT = "large"
_SERVER = {"max_wal_size": "'16GB'", "checkpoint_timeout": "'15min'", "shared_buffers": "'1GB'"}
_MODEL = """\
{{ waltally.fact(
    tables={'live': 'public.orders', 'archived': 'public.old_orders'},
    dimensions={'customer_id': 'integer', 'state': 'text'},
    measures={'order_count': {'count': ['live', 'archived']}, 'cents': {'sum': 'cents'}},
) }}
"""
_TABLES = """
create table orders (
    id bigint not null, customer_id integer not null, cents bigint not null, state text not null,
    placed_at timestamptz not null
);
create table old_orders (like orders including all);
alter table orders replica identity full;
alter table old_orders replica identity full;
create table queue (id integer primary key, tries bigint not null);
insert into queue select n, 0 from generate_series(1, 1000) as n;
"""
_FILL = """
insert into {table}
select
    n, n * 1000003 %% %(groups)s / 5, n %% 9973,
    (array['new', 'paid', 'sent', 'late', 'back'])[1 + n %% 5],
    timestamptz '2026-01-01' + n * interval '1 second'
from generate_series(%(first)s::bigint, %(last)s) as n
"""
_WRITE = """
insert into orders select -n, n, n, 'new', now() from generate_series(1, 10) as n;
update queue set tries = tries + 1 where id % 10 = extract(second from now())::integer % 10
"""
_CHECKSUM = """
select count(*), sum(n), sum(cents),
    sum(hashtextextended(concat_ws('|', customer_id, state, n, cents), 0)::numeric)
from ({groups}) as groups
"""
_RECOUNT = """
select customer_id, state, count(*) as n, sum(cents) as cents
from (table orders union all table old_orders) as rows
group by customer_id, state
"""
_STORED = """
select customer_id, state, order_count as n, cents from analytics.ft_large where order_count <> 0
"""
_HELD = """
select
    (select max(pg_current_wal_lsn() - restart_lsn) from pg_replication_slots)::float8,
    (
        select coalesce(extract(epoch from clock_timestamp() - min(xact_start)), 0)::float8
        from pg_stat_activity
        where backend_xmin is not null and pid <> pg_backend_pid()
    ),
    pg_table_size('queue')::float8
"""


class Watch:
    """The application, and the most that was held while it ran."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.most = {
            "WAL held, MB": 0.0,
            "oldest snapshot, s": 0.0,
            "queue, MB": 0.0,
            "temporary files, MB": 0.0,
        }
        self._cluster, self._folder = cluster, folder
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._write, self._sample)]

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        with (
            closing(psycopg2.connect(self._cluster.dsn())) as connection,
            connection.cursor() as cursor,
        ):
            connection.autocommit = True
            while not self._ended.wait(0.1):
                cursor.execute(_WRITE)

    def _sample(self) -> None:
        with (
            closing(psycopg2.connect(self._cluster.dsn())) as connection,
            connection.cursor() as cursor,
        ):
            connection.autocommit = True
            while not self._ended.wait(1):
                cursor.execute(_HELD)
                ((held, age, queue),) = cursor.fetchall()
                files = sum(
                    each.stat().st_size for each in self._folder.rglob("*") if each.is_file()
                )
                now = (held / 1e6, age, queue / 1e6, files / 1e6)
                self.most = {
                    key: max(most, found)
                    for (key, most), found in zip(self.most.items(), now, strict=True)
                }


def measure(rows: int, groups: int) -> report.Row:
    """Fill, seed and compare. Raises RuntimeError where the fact is wrong."""
    with ExitStack() as stack:
        home, temporary = (
            Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)
        )
        source, warehouse = (stack.enter_context(Cluster(_SERVER)) for _ in range(2))
        workload.declare(home, {"models/ft_large.sql": _MODEL})
        fill(source, rows, groups)
        workload.set_up(source, warehouse, SLOT, home)
        settings = {
            **workload.environment(source, warehouse, SLOT, home),
            "SPARK_LOCAL_DIRS": str(temporary),
        }
        loader = subprocess.Popen(
            [workload.LOADER, "run", "--build"], env=settings, stderr=subprocess.DEVNULL
        )
        try:
            before = server_cpu(source)
            with Watch(source, temporary) as watch, PeakMemory() as memory:
                began = time.monotonic()
                run([workload.BIN / "spark-submit", ROOT / "spark/seed.py"], settings, {})
                seconds = time.monotonic() - began
            spent = server_cpu(source) - before
        finally:
            loader.terminate()
            loader.wait()
        run([workload.LOADER, "run", "--once"], settings, {})
        run([workload.BIN / "dbt", "run", "--quiet", "--select", *workload.MODELS], settings, {})
        stored, counted = sums(warehouse, _STORED), sums(source, _RECOUNT)
        if stored != counted:
            raise RuntimeError(f"the fact has {stored}, the tables {counted}")
    return {
        "rows": f"{rows:,}",
        "groups": counted[0],
        "seconds": seconds,
        "rows/s": rows / seconds,
        "source's CPU, s": spent,
        "memory, MB": sum(memory.peaks.values()) / 1e6,
        **watch.most,
    }


def fill(source: Cluster, rows: int, groups: int) -> None:
    """Make the tables; nine rows of ten are old."""
    begun = time.monotonic()
    with closing(psycopg2.connect(source.dsn())) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(_TABLES)
        live = rows // 10
        for table, first, last in (("orders", 1, live), ("old_orders", live + 1, rows)):
            cursor.execute(
                _FILL.format(table=table), {"groups": groups, "first": first, "last": last}
            )
        cursor.execute("vacuum analyze")
        cursor.execute("checkpoint")
    say(f"{rows:,} rows in about {groups:,} groups, filled in {time.monotonic() - begun:.0f} s")


def sums(cluster: Cluster, groups: str) -> tuple[Any, ...]:
    """Return how many groups there are, and sums over them."""
    with closing(psycopg2.connect(cluster.dsn())) as connection, connection.cursor() as cursor:
        cursor.execute(_CHECKSUM.format(groups=groups))
        (row,) = cursor.fetchall()
    return tuple(row)


def main() -> None:
    """Measure with few groups and with many, and publish the table."""
    parser = report.parser(__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000, help="default: %(default)s")
    parser.add_argument("--few", type=int, default=10_000, help="groups (%(default)s)")
    parser.add_argument(
        "--many", type=int, default=1_000_000, help="groups, 0 for none (%(default)s)"
    )
    options = parser.parse_args()
    rows = [measure(options.rows, groups) for groups in (options.few, options.many) if groups]
    report.publish("large_seed", rows, sizes=vars(options))


if __name__ == "__main__":
    main()
