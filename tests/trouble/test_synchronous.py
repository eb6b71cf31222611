"""No commit of the application waits for the loader, whatever synchronous_standby_names says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from testkit.commands import short_pauses, wait_until
from testkit.databases import Database, paste
from testkit.fixtures import MakePipeline
from testkit.servers import configured, connect
from testkit.standbys import Family

BUSY_STANDBY_SECONDS = 25.0
"""Less than half of wal_sender_timeout, after which a standby would end any wait."""


@contextmanager
def names(database: Database, setting: str) -> Iterator[None]:
    """Set synchronous_standby_names; this database's own session waits for nobody."""
    database.execute("set synchronous_commit to local")
    with configured(database.cluster, synchronous_standby_names=f"'{setting}'"):
        wait_until(lambda: database.value("show synchronous_standby_names") == setting, "reloaded")
        yield
    database.execute("reset synchronous_commit")


@contextmanager
def committing(database: Database) -> Iterator[Callable[[], None]]:
    """Commit small transactions meanwhile; yield what returns once further ones are committed."""
    stop = threading.Event()
    took: list[float] = []

    def commit() -> None:
        with closing(connect(database.cluster.dsn(database.name))) as connection:
            while not stop.wait(0.01):
                began = time.monotonic()
                connection.cursor().execute("insert into unrelated (note) values ('timed')")
                took.append(time.monotonic() - began)

    def some_more() -> None:
        enough = len(took) + 20
        wait_until(lambda: len(took) > enough, "the application commits")

    writer = threading.Thread(target=commit)
    writer.start()
    try:
        yield some_more
    finally:
        stop.set()
        writer.join()
    assert max(took) < BUSY_STANDBY_SECONDS


def states(database: Database) -> dict[str, str]:
    asked = "select application_name, sync_state from pg_stat_replication"
    return dict(database.execute(f"{asked} where state = 'streaming'"))


def test_no_commit_waits_beside_a_real_standby(family: Family, make_pipeline: MakePipeline) -> None:
    """The loader is there first, then the standby, then the setting; and it goes on by itself."""
    pipeline = make_pipeline(family.primary)
    pipeline.must("setup")
    source, standby = pipeline.source, family.backup()
    upstream = family.primary.dsn(application_name="node-1")
    standby.configure({"primary_conninfo": f"'{upstream}'", "wal_receiver_status_interval": "1h"})
    with committing(source) as some_more:
        # Between the server's reload and the loader's next look, it streams.
        pipeline.limits.check_source = 3600.0
        with pipeline.follow() as running:
            source.insert(1)
            pipeline.wait_for_staged(1)
            standby.start()
            wait_until(lambda: "node-1" in states(source), "the standby streams")
            with names(source, "*"):
                for rows in range(2, 12):
                    source.insert(1)
                    pipeline.wait_for_staged(rows)
                    # Between the two messages of a status it may be one for an instant.
                    wait_until(
                        lambda: states(source)["waltally loader"] != "sync",
                        "the loader is no candidate",
                    )
                some_more()
        assert running.said().count("following the slot") == 1
        pipeline.limits.check_source = short_pauses().check_source
        with pipeline.follow() as running, names(source, "ANY 1 (*)"):
            running.wait_for("takes the loader")
            for command in (("setup",), ("run", "--once")):
                pipeline.refused_with(10, "synchronous standby", *command)
            assert pipeline.status()["findings"][0]["code"] == 10
            some_more()
            source.insert(4)
            assert pipeline.staged() == 11
            # To a role that sees no standby the remedy is a query that finds them.
            source.execute("create role least login replication")
            said = pipeline.refused("setup", "--check", PGUSER="least")[1]
            remedy = said.split("takes the loader")[1].split("Try: ")[1].splitlines()[0]
            paste(family.primary, "postgres", remedy.removeprefix("as a superuser in psql: "))
            running.wait_for("following the slot", 2)
            pipeline.wait_for_staged(15)
            assert source.value("show synchronous_standby_names") == 'ANY 1 ("node-1")'
            wait_until(
                lambda: states(source) == {"node-1": "quorum", "waltally loader": "async"},
                "only the standby is waited for",
            )
            some_more()
    # Nor does the loader wait where its log is in the source: both are in one WAL, and a promoted
    # standby has the log up to where it has the changes.
    standby.stop()
    with pipeline.follow() as running, names(source, '"node-1"'):
        source.insert(3)
        pipeline.wait_for_staged(18)
