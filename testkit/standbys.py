"""A primary and its copies, each a server of its own: streaming standbys, backups, disks."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

import psutil
import psycopg2
import pytest

from testkit.commands import wait_until
from testkit.databases import Database
from testkit.notify_traffic import NO_PURGES, Traffic
from testkit.pipeline import Pipeline
from testkit.servers import BIN, PLUGINS, Cluster, Server, administer
from testkit.source import transaction

_VERSION = subprocess.run([BIN / "postgres", "--version"], capture_output=True, text=True).stdout
MAJOR = int(re.findall(r"\d+", _VERSION)[0])

from_17 = pytest.mark.skipif(MAJOR < 17, reason="standbys keep slots from PostgreSQL 17 on")
from_18 = pytest.mark.skipif(MAJOR < 18, reason="slots time out from PostgreSQL 18 on")
before_17 = pytest.mark.skipif(MAJOR >= 17, reason="standbys keep slots from PostgreSQL 17 on")

COPIES_SLOTS = {
    "hot_standby_feedback": "on",
    "primary_slot_name": "'standby'",
    "sync_replication_slots": "on",
}


class Copy(Cluster):
    """A copy of a primary; it allows the plugins that the primary allows, where that is set."""

    def __init__(self, primary: Cluster, settings: dict[str, str]) -> None:
        allowed = {name: primary.settings[name] for name in (PLUGINS,) if name in primary.settings}
        super().__init__({"fsync": "off", **allowed, **settings})
        self.primary = primary

    def take_backup(self) -> None:
        """Become a base backup that starts as a standby; slots are not in it."""
        dsn = self.primary.dsn()
        self.primary.run("pg_basebackup", "-D", str(self.data), "-d", dsn, "-R", "-c", "fast")
        self.configure({})

    def take_disk(self) -> None:
        """Become the disk of the stopped primary; slots are in it."""
        self.primary.run("/bin/cp", "-a", str(self.primary.data), str(self.data))
        self.configure({})

    def start_promoted(self) -> None:
        """Begin a timeline of its own, as a standby that is promoted."""
        (self.data / "standby.signal").touch()
        self.start()
        self.promote()

    def promote(self) -> None:
        self.run("pg_ctl", "-D", str(self.data), "-w", "promote")


class Standby(Copy):
    """A streaming standby; it has a slot at the primary, which its settings may name."""

    def __init__(self, primary: Cluster, settings: dict[str, str]) -> None:
        streams = {"primary_conninfo": f"'{primary.dsn()}'", "wal_retrieve_retry_interval": "100ms"}
        super().__init__(primary, {**streams, **settings})
        administer(primary, "select pg_create_physical_replication_slot('standby', true)")
        self.take_backup()

    def ask(self, query: str) -> object:
        with transaction(self.dsn()) as cursor:
            cursor.execute(query)
            ((found,),) = cursor.fetchall()
        return found

    def catch_up(self) -> None:
        """Return once it has replayed what the primary has written by now."""
        with transaction(self.primary.dsn()) as cursor:
            cursor.execute("select pg_current_wal_insert_lsn()")
            ((position,),) = cursor.fetchall()
            # Also flushes what was committed asynchronously.
            cursor.execute("select pg_logical_emit_message(true, 'x', 'x')")
        replayed = f"select coalesce(pg_last_wal_replay_lsn() >= '{position}', false)"
        wait_until(lambda: bool(self.ask(replayed)), "the standby catches up")

    def copies(self, slot: str) -> bool:
        """Say whether it has a complete copy of the slot."""
        return bool(
            self.ask(
                "select count(*) from pg_replication_slots "
                f"where slot_name = '{slot}' and synced and not temporary"
            )
        )


class Family:
    """A primary, and what was copied from it."""

    def __init__(self) -> None:
        self.primary = Server({"fsync": "off"})
        self.copies: list[Copy] = []

    def standby(self, settings: dict[str, str]) -> Standby:
        """Make a standby and start it."""
        made = Standby(self.primary, settings)
        self.copies.append(made)
        made.start()
        return made

    def backup(self) -> Copy:
        """Take a base backup, not started."""
        made = Copy(self.primary, {"wal_keep_size": "64MB"})
        self.copies.append(made)
        made.take_backup()
        return made

    def disk(self) -> Copy:
        """Copy the disk of the stopped primary."""
        made = Copy(self.primary, {})
        self.copies.append(made)
        made.take_disk()
        return made

    def __enter__(self) -> Self:
        self.primary.create()
        self.primary.start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self.primary, *self.copies):
            each.remove()


@contextmanager
def now_the_source(pipeline: Pipeline, cluster: Cluster) -> Iterator[None]:
    """Let the source, and a target that is the source, be the same database on another server."""
    source, target = pipeline.source, pipeline.target
    pipeline.source = Database(cluster, source.name)
    pipeline.source.manifest = source.manifest
    if target is source:
        pipeline.target = pipeline.source
    try:
        yield
    finally:
        pipeline.source.connection.close()
        pipeline.source, pipeline.target = source, target


def crash(cluster: Cluster) -> None:
    """Kill every process of the server at once, as when its machine loses power."""
    lock = cluster.data / "postmaster.pid"
    postmaster = psutil.Process(int(lock.read_text().split()[0]))
    for process in (postmaster, *postmaster.children()):
        process.kill()
    # Whoever has the number by then would be taken for the server.
    lock.unlink()


class Writer(Traffic):
    """One session that changes notifications without a pause; the end of its server ends it too."""

    def __init__(self, database: Database, seed: int) -> None:
        dsn = database.cluster.dsn(database.name)
        super().__init__(dsn, sessions=1, seed=seed, weights=NO_PURGES)

    @property
    def count(self) -> int:
        """How many changes are committed."""
        return self.counts.total()

    def stop(self) -> None:
        with suppress(psycopg2.Error):
            super().stop()
