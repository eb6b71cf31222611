"""No commit of the application waits for the loader, whatever synchronous_standby_names says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2
import pytest

from testkit.commands import wait_until
from testkit.databases import Database
from testkit.fixtures import MakePipeline
from testkit.pipeline import Pipeline
from testkit.servers import Cluster
from testkit.standbys import Family

BUSY_STANDBY_SECONDS = 25.0
"""Less than half of wal_sender_timeout, after which a standby would end any wait."""


@contextmanager
def names(database: Database, setting: str) -> Iterator[None]:
    """Set synchronous_standby_names; this database's own session waits for nobody."""
    database.execute("set synchronous_commit to local")
    database.execute(f"alter system set synchronous_standby_names = '{setting}'")
    database.execute("select pg_reload_conf()")
    try:
        wait_until(lambda: database.value("show synchronous_standby_names") == setting, "reloaded")
        yield
    finally:
        database.execute("alter system reset synchronous_standby_names")
        database.execute("select pg_reload_conf()")
        database.execute("reset synchronous_commit")


def paste(database: Database, said: str) -> None:
    """Run the printed remedy as it stands, in psql."""
    script = database.cluster.home / "remedy.sql"
    script.write_text(
        said.split("Try: ")[1].splitlines()[0].removeprefix("as a superuser in psql: ")
    )
    database.cluster.run(
        "psql", "-v", "ON_ERROR_STOP=1", "-d", database.cluster.dsn(), "-f", str(script)
    )


def test_setup_and_start_refuse_and_the_remedy_works(
    make_pipeline: MakePipeline, spare: Cluster
) -> None:
    pipeline = make_pipeline(spare)
    pipeline.must("setup")
    pipeline.source.insert(2)
    with names(pipeline.source, "*"):
        body = json.loads(pipeline.loader("status", "--json").stdout)
        assert body["findings"][0]["code"] == 37
        for command in (("setup",), ("setup", "--check"), ("run", "--once")):
            code, said = pipeline.refused(*command)
            assert (code, "synchronous standby" in said) == (37, True), said
        assert pipeline.staged() == 0
        paste(pipeline.source, said)
        wait_until(lambda: pipeline.source.value("show synchronous_standby_names") == "", "pasted")
        pipeline.must("run", "--once")
    assert pipeline.staged() == 2


class Writer:
    """Commits small transactions that wait for synchronous standbys, and times each."""

    def __init__(self, database: Database) -> None:
        self.longest = 0.0
        self.commits = 0
        self._dsn = database.cluster.dsn(database.name)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        connection = psycopg2.connect(self._dsn)
        connection.autocommit = True
        with connection.cursor() as cursor:
            while not self._stop.is_set():
                began = time.monotonic()
                cursor.execute("insert into unrelated (note) values ('timed')")
                self.longest = max(self.longest, time.monotonic() - began)
                self.commits += 1
                self._stop.wait(0.01)
        connection.close()

    def some_more(self) -> None:
        """Return once some further transactions are committed."""
        before = self.commits
        wait_until(lambda: self.commits > before + 20, "the application commits")

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def standby_of(family: Family) -> Cluster:
    standby = family.backup()
    upstream = family.primary.dsn(application_name="node-1")
    standby.configure({"primary_conninfo": f"'{upstream}'", "wal_receiver_status_interval": "1h"})
    return standby


def states(database: Database) -> dict[str, str]:
    return dict(
        database.execute(
            "select application_name, sync_state from pg_stat_replication where state = 'streaming'"
        )
    )


def test_no_commit_waits_beside_a_real_standby(family: Family, make_pipeline: MakePipeline) -> None:
    """The loader is there first, then the standby, then the setting; and it goes on by itself."""
    pipeline = make_pipeline(family.primary)
    pipeline.must("setup")
    standby = standby_of(family)
    with pipeline.follow() as running, Writer(pipeline.source) as writer:
        wait_until(lambda: "waltally loader" in states(pipeline.source), "the loader streams")
        standby.start()
        wait_until(lambda: "node-1" in states(pipeline.source), "the standby streams")
        pipeline.source.insert(3)
        pipeline.wait_for_staged(3)
        with names(pipeline.source, "*"):
            running.wait_for("takes the loader")
            writer.some_more()
            pipeline.source.insert(4)
            assert pipeline.staged() == 3
            paste(pipeline.source, running.said())
            running.wait_for("following the slot", 2)
            pipeline.wait_for_staged(7)
            value = pipeline.source.value("show synchronous_standby_names")
            assert value == 'FIRST 1 ("node-1")'
            wait_until(
                lambda: states(pipeline.source) == {"node-1": "sync", "waltally loader": "async"},
                "only the standby is waited for",
            )
            writer.some_more()
        running.end()
    assert writer.longest < BUSY_STANDBY_SECONDS


def test_a_log_in_the_source_is_stored_while_its_standbys_are_away(
    family: Family, make_pipeline: MakePipeline
) -> None:
    """Both are in one WAL: a promoted standby has the log up to where it has the changes."""
    pipeline = make_pipeline(family.primary)
    pipeline.must("setup")
    with pipeline.follow() as running, names(pipeline.source, '"node-1"'):
        pipeline.source.execute("set synchronous_commit to local")
        pipeline.source.insert(3)
        pipeline.wait_for_staged(3)
        running.end()


def test_an_unwatched_moment_holds_no_commit_up(
    family: Family, make_pipeline: MakePipeline
) -> None:
    """Between the server's reload and the loader's next look it streams, and is not waited for."""
    pipeline = make_pipeline(family.primary)
    pipeline.must("setup")
    standby = standby_of(family)
    pipeline.limits.check_source = 3600.0
    with pipeline.follow() as running, Writer(pipeline.source) as writer:
        pipeline.source.insert(1)
        pipeline.wait_for_staged(1)
        standby.start()
        wait_until(lambda: "node-1" in states(pipeline.source), "the standby streams")
        with names(pipeline.source, "*"):
            for rows in range(2, 12):
                pipeline.source.insert(1)
                pipeline.wait_for_staged(rows)
                # Between the two messages of a status it may be one for an instant.
                wait_until(
                    lambda: states(pipeline.source)["waltally loader"] != "sync",
                    "the loader is no candidate",
                )
            writer.some_more()
        running.end()
    assert running.said().count("following the slot") == 1
    assert writer.longest < BUSY_STANDBY_SECONDS


@pytest.mark.slow
def test_a_role_that_sees_no_standby_gets_a_remedy_that_finds_them(
    family: Family, make_pipeline: MakePipeline
) -> None:
    pipeline: Pipeline = make_pipeline(family.primary)
    standby_of(family).start()
    source = pipeline.source
    wait_until(lambda: "node-1" in states(source), "the standby streams")
    source.execute(
        f"create role least login replication; grant create on database {source.name} to least"
    )
    with names(source, "ANY 2 (*)"):
        done = pipeline.loader("setup", PGUSER="least")
        assert done.returncode == 37, done.stderr
        paste(source, done.stderr)
        wait_until(
            lambda: source.value("show synchronous_standby_names") == 'ANY 1 ("node-1")', "pasted"
        )
        assert pipeline.loader("setup", PGUSER="least").returncode == 0
