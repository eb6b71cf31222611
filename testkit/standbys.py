"""A primary and its copies, each a server of its own: streaming standbys, backups, disks."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg2
import pytest
from psycopg2.errors import DeadlockDetected

from testkit.commands import wait_until
from testkit.databases import Database
from testkit.pipeline import Pipeline
from testkit.servers import BIN, PLUGINS, Cluster, Server, administer, connect

_VERSION = subprocess.run([BIN / "postgres", "--version"], capture_output=True, text=True).stdout
MAJOR = int(re.findall(r"\d+", _VERSION)[0])

from_16 = pytest.mark.skipif(MAJOR < 16, reason="standbys decode from PostgreSQL 16 on")
from_17 = pytest.mark.skipif(MAJOR < 17, reason="standbys keep slots from PostgreSQL 17 on")
from_18 = pytest.mark.skipif(MAJOR < 18, reason="slots time out from PostgreSQL 18 on")
before_17 = pytest.mark.skipif(MAJOR >= 17, reason="standbys keep slots from PostgreSQL 17 on")

KEEPS_SLOTS = {"hot_standby_feedback": "on", "primary_slot_name": "'standby'"}
COPIES_SLOTS = {**KEEPS_SLOTS, "sync_replication_slots": "on"}


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
        streams = {
            "primary_conninfo": f"'{primary.dsn()}'",
            "wal_retrieve_retry_interval": "100ms",
        }
        super().__init__(primary, {**streams, **settings})
        administer(primary, "select pg_create_physical_replication_slot('standby', true)")
        self.take_backup()

    def ask(self, query: str) -> object:
        connection = connect(self.dsn())
        with connection.cursor() as cursor:
            cursor.execute(query)
            ((found,),) = cursor.fetchall()
        connection.close()
        return found

    def catch_up(self) -> None:
        """Return once it has replayed what the primary has written by now."""
        connection = connect(self.primary.dsn())
        with connection.cursor() as cursor:
            cursor.execute("select pg_current_wal_insert_lsn()")
            ((position,),) = cursor.fetchall()
            # Also flushes what was committed asynchronously.
            cursor.execute("select pg_logical_emit_message(true, 'x', 'x')")
        connection.close()
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

    def remove(self) -> None:
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
    postmaster = int((cluster.data / "postmaster.pid").read_text().split()[0])
    children = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/stat")
        if _parent(path) == postmaster
    ]
    for pid in (postmaster, *children):
        os.kill(pid, signal.SIGKILL)
    # Whoever has the number by then would be taken for the server.
    (cluster.data / "postmaster.pid").unlink()


def _parent(stat: Path) -> int:
    try:
        return int(stat.read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


class Writer:
    """Changes notifications in a thread, in small and large transactions, until it is stopped.

    A server that goes away ends it too.
    """

    def __init__(self, database: Database, seed: int) -> None:
        self._dsn = database.cluster.dsn(database.name)
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            connection = psycopg2.connect(self._dsn)
            while not self._stop.is_set():
                # Another writer may have the same rows, in another order.
                with suppress(DeadlockDetected), connection, connection.cursor() as cursor:
                    self._change(cursor)
                self.count += 1
            connection.close()
        except psycopg2.Error:
            return

    def _change(self, cursor: psycopg2.extensions.cursor) -> None:
        what = self._random.choice(("insert", "insert", "insert", "update", "delete"))
        size = self._random.choice((1, 1, 1, 5, 300))
        status = self._random.choice(("created", "sent", "failed"))
        some = "(select id from notifications order by random() limit %s)"
        if what == "insert":
            cursor.execute(
                'insert into notifications ("to", service_id, template_id, notification_type, '
                "notification_status) select 'x', t.service_id, t.id, 'email', %s from "
                "(select * from templates order by random() limit 1) as t, generate_series(1, %s)",
                (status, size),
            )
        elif what == "update":
            cursor.execute(
                f"update notifications set notification_status = %s where id in {some}",
                (status, size),
            )
        else:
            cursor.execute(f"delete from notifications where id in {some}", (min(size, 5),))
