"""A change log with partitions for several windows of WAL positions, and a prune of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager

from loader.staging.make_partition import make_partition
from loader.staging.partitions import PARTITION_NAME
from testkit.commands import LOADER, ROOT, wait_until
from testkit.databases import Database
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, Server, connect, connect_target
from waltally.database import Connection, Target

DAYS_OLD = {1: 30, 2: 20, 3: 8, 4: 3}
"""The newest row of each partition that `backfill` makes."""


@contextmanager
def server(segment: str) -> Iterator[Cluster]:
    """A server whose WAL begins with this segment, of 16 MB: a window has FF of them."""
    cluster = Server({"fsync": "off"})
    try:
        cluster.create()
        cluster.run("pg_resetwal", "-l", segment, "-D", str(cluster.data))
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


def backfill(pipeline: Pipeline) -> None:
    """Let the log have begun at 1/0, with a change in each partition below the present one."""
    with closing(connect_target(pipeline.target.cluster.dsn(pipeline.target.name))) as target:
        for number in DAYS_OLD:
            make_window(target, number)
    for number, days in DAYS_OLD.items():
        pipeline.target.execute(
            "insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at, "
            "staged_at, payload) select %s, %s::pg_lsn + ordinal, ordinal, 1, now(), "
            "now() - %s * interval '1 day', '{}' from generate_series(1, 3) as ordinal",
            pipeline.slot,
            f"{number}/0",
            days,
        )
    pipeline.target.execute("update cdc.slot_position set start_lsn = '1/0'")


def make_window(target: Target, number: int) -> None:
    """Make the partition of 4 GiB with this number, as a long log has them."""
    with target.transaction():
        make_partition(target, number << 32, 16 << 32)


def partitions(database: Database) -> list[str]:
    """The partitions that are attached, by their numbers."""
    rows = database.execute(
        "select inhrelid::regclass::text from pg_inherits "
        "where inhparent = 'cdc.change_log'::regclass order by 1"
    )
    return [name.removeprefix("cdc.change_log_").lstrip("0") for (name,) in rows]


def tables(database: Database) -> int:
    """How many tables there are for partitions, attached or not."""
    return int(database.value("select count(*) from pg_class where relname ~ %s", PARTITION_NAME))


def require_pruned(database: Database) -> None:
    """Require what a prune that keeps seven days leaves: the fourth one and the pipeline's own."""
    left = partitions(database)
    assert left[0] == "4"
    assert all(name.startswith("5") for name in left[1:])
    assert tables(database) == len(left)


@contextmanager
def waiting_prune(
    pipeline: Pipeline, table: str = "cdc.change_log"
) -> Iterator[tuple[subprocess.Popen[str], Connection]]:
    """A prune that waits for a session that has read the table; the prune and that session."""
    with closing(connect(pipeline.target.cluster.dsn(pipeline.target.name))) as reader:
        reader.autocommit = False
        reader.cursor().execute(f"select count(*) from {table}")
        prune = subprocess.Popen(
            [str(LOADER), "prune", "--timeout", "600"],
            env=pipeline.environment(),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            wait_until_it_waits(pipeline, table)
            yield prune, reader
        finally:
            prune.kill()
            prune.communicate()


def wait_until_it_waits(pipeline: Pipeline, table: str = "cdc.change_log") -> None:
    """Wait until the prune asks for the table, which it does for a second at a time."""
    waits = (
        "select count(*) from pg_locks where relation = %s::regclass "
        "and mode = 'AccessExclusiveLock' and not granted"
    )
    wait_until(lambda: pipeline.target.value(waits, table) == 1, "it waits for a reader")
