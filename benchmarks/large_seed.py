"""A seed of many rows while the application writes: its time, and what it holds at the source.

python -m benchmarks.large_seed --rows 100000000 --groups 10000 1000000 --of primary
python -m benchmarks.large_seed --rows 20000000 --groups 1000000 --of primary archive

Two tables of five columns have --rows rows in all. While the seed counts them, the loader follows,
and each second the application inserts 100 rows and updates 1,000 rows of a queue, with autovacuum
as it comes. Read each second: the WAL that slots hold, the age of the oldest snapshot, the size of
the queue and of the seed's temporary files. A seed of an archive reads what `archive.py`, not
counted, has written after a seed of the primary. Checked: the model equals a recount after each
seed.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks import report, workload
from benchmarks.loader_process import running
from benchmarks.measure import ROOT, run, say
from benchmarks.seed import RECOUNT, Servers, checksum, seed, start
from testkit.servers import Cluster

_SERVER = {"max_wal_size": "'16GB'", "checkpoint_timeout": "'15min'", "shared_buffers": "'1GB'"}
_WRITE = """
insert into orders select -n, n, n, 'new', now() from generate_series(1, 10) as n;
update queue set tries = tries + 1 where id % 10 = extract(second from now())::integer % 10
"""
_STORED = """
select customer_id, state, order_count as n, cents from analytics.ft_orders where order_count <> 0
"""
_HELD = """
select
    (select max(pg_current_wal_lsn() - restart_lsn) from pg_replication_slots)::float8 / 1e6,
    (
        select coalesce(extract(epoch from clock_timestamp() - min(xact_start)), 0)::float8
        from pg_stat_activity
        where backend_xmin is not null and pid <> pg_backend_pid()
    ),
    pg_table_size('queue')::float8 / 1e6
"""


@contextmanager
def application(source: Cluster, folder: Path) -> Iterator[dict[str, float]]:
    """Write as the application; yield the most that was held meanwhile."""
    most: dict[str, float] = {}
    ended = threading.Event()

    def repeat(pause: float, statement: str, note: Callable[[list[Any]], None]) -> None:
        while not ended.wait(pause):
            note(workload.ask(source.dsn(), statement))

    def keep(rows: list[Any]) -> None:
        files = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file()) / 1e6
        names = ("WAL held, MB", "oldest snapshot, s", "queue, MB", "temporary files, MB")
        for name, found in zip(names, (*rows[0], files), strict=True):
            most[name] = max(found, most.get(name, 0.0))

    threads = [
        threading.Thread(target=repeat, args=(0.1, _WRITE, lambda _: None)),
        threading.Thread(target=repeat, args=(1, _HELD, keep)),
    ]
    for thread in threads:
        thread.start()
    try:
        yield most
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def seed_of(place: str, servers: Servers, stack: ExitStack) -> tuple[str, ...]:
    """Return the seed's flags for the place that it reads, once that is there."""
    home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    if place == "archive":
        archive: list[str | Path] = [
            workload.BIN / "spark-submit",
            ROOT / "spark/archive.py",
            "--to",
            home,
        ]
        run(archive, servers.settings, {})
        return ("--archive", str(home))
    return ()


def measure(rows: int, groups: Sequence[int], of: Sequence[str]) -> Iterator[report.Table]:
    """Fill, seed and compare. Raises RuntimeError where the model is wrong."""
    found: list[report.Row] = []
    for number in groups:
        with ExitStack() as stack:
            servers = start(stack, _SERVER, rows, number)
            temporary = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            servers.settings["SPARK_LOCAL_DIRS"] = str(temporary)
            loader = [str(workload.LOADER), "run"]
            for place in of:
                with running([*loader, "--build"], servers.settings):
                    flags = seed_of(place, servers, stack)
                    with application(servers.source, temporary) as most:
                        outcome = seed(servers, *flags)
                run([*loader, "--once", "--build"], servers.settings, {})
                counted, stored = (
                    checksum(servers.source, RECOUNT),
                    checksum(servers.warehouse, _STORED),
                )
                if stored != counted:
                    raise RuntimeError(f"of {place}: the model has {stored}, the tables {counted}")
                say(f"  of {place}: {outcome.seconds:.0f} s")
                found.append(
                    {
                        "seed of": place,
                        "rows": rows,
                        "groups": counted[0],
                        "seconds": outcome.seconds,
                        "rows/s": rows / outcome.seconds,
                        "source's CPU, s": outcome.source_cpu,
                        "memory, MB": (outcome.memory or 0) / 1e6,
                        **most,
                    }
                )
    yield report.Table("large_seed", found)


if __name__ == "__main__":
    report.main(
        __doc__,
        measure,
        rows=(100_000_000, "rows of both tables"),
        groups=([10_000, 1_000_000], "numbers of groups"),
        of=(["primary"], "where the rows are read: primary or archive"),
    )
