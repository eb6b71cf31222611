"""A seed from a physical standby is exact, spares the primary, and lets replay go on."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import counting.standby
import psycopg
import pytest
from common.connections import Connection, connect
from counting import timelines
from seeding import incoming

from loader.staging.records import SlotPosition
from testkit.commands import wait_until
from testkit.servers import Cluster
from tests.spark.support import GATE, Source
from tests.spark.traffic import Writers, ends_as_a_recount
from waltally import lsn
from waltally.errors import SourceBehind

FOLLOWED = """
    update cdc.logged_table set held_since = jsonb_build_object('*', start_lsn::text)
    from cdc.slot_position returning 1
"""
STATE = "select pg_get_wal_replay_pause_state()"
PLUGINS = "output_plugin_libraries"


class Standby(Cluster):
    """A streaming standby of the source's server."""

    def __init__(self, source: Source) -> None:
        primary = source.cluster
        allowed = {name: primary.settings[name] for name in (PLUGINS,) if name in primary.settings}
        streams = {"primary_conninfo": f"'{primary.dsn()}'", "max_standby_streaming_delay": "50"}
        super().__init__({"fsync": "off", "max_prepared_transactions": "5", **streams, **allowed})
        self.source = source
        self.flags = ("--standby", self.dsn(source.name))
        primary.run("pg_basebackup", "-D", str(self.data), "-d", primary.dsn(), "-R", "-c", "fast")
        self.configure({})
        self.start()

    def ask(self, query: str) -> Any:
        with psycopg.connect(self.dsn(self.source.name), autocommit=True) as connection:
            row = connection.execute(query.encode()).fetchone()
        return row and row[0]

    def catch_up(self) -> None:
        [(position,)] = self.source.ask("select pg_current_wal_flush_lsn()::text")
        wait_until(lambda: self.ask(f"select pg_last_wal_replay_lsn() >= '{position}'"))

    def promote(self) -> None:
        self.run("pg_ctl", "-D", str(self.data), "-w", "promote")


@pytest.fixture
def standby(source: Source) -> Iterator[Standby]:
    source.ask(FOLLOWED)
    source.fill()
    made = Standby(source)
    try:
        made.catch_up()
        yield made
    finally:
        made.remove()


def refused(
    standby: Standby, code: int, *words: str, flags: tuple[str, ...] = (), timeout: str = "60"
) -> None:
    """Run the seed and see it end with this exit code and these words, and nothing stored."""
    found, _, err = standby.source.seed(*standby.flags, "--timeout", timeout, *flags)
    assert found == code, err
    assert [word for word in words if word not in err] == [], err
    assert "Traceback" not in err
    assert standby.source.ask("select from cdc.baseline") == []


def test_a_seed_from_a_standby_amid_writers_and_the_stream_from_its_position_are_a_recount(
    standby: Standby,
) -> None:
    source = standby.source
    source.ask("select pg_create_logical_replication_slot('truth', 'wal2json')")
    with Writers(source, 3):
        standby.catch_up()
        # The source's connection string leads nowhere: nothing connects to it.
        code, out, err = source.seed(
            *("--json", "--source", "host=127.0.0.1 port=1", "--target", source.dsn),
            *standby.flags,
        )
    assert code == 0, err
    assert standby.ask(STATE) == "not paused"
    ends_as_a_recount(source, lsn.parse(json.loads(out)["snapshot_lsn"]))


def test_what_is_only_prepared_at_the_position_comes_from_the_stream(standby: Standby) -> None:
    source = standby.source
    source.ask("select pg_create_logical_replication_slot('truth', 'wal2json')")
    with source.connect() as connection:
        connection.execute(
            "begin; update notifications set notification_status = 'moved' where"
            " notification_status = 'sent'; prepare transaction 'open'"
        )
        try:
            standby.catch_up()
            code, out, err = source.seed("--json", *standby.flags)
        finally:
            connection.execute("commit prepared 'open'")
    assert code == 0, err
    ends_as_a_recount(source, lsn.parse(json.loads(out)["snapshot_lsn"]))


def test_a_standby_of_a_former_primary_is_refused(standby: Standby) -> None:
    """It has the same identifier, and rows that the server that the loader follows never had."""
    standby.source.ask("update cdc.slot_position set timeline = 2 returning 1")
    refused(standby, 25, "the standby is on timeline 1, and the loader follows timeline 2")
    assert standby.ask(STATE) == "not paused"


def test_a_timeline_of_the_same_number_that_began_elsewhere_is_refused(standby: Standby) -> None:
    """Another standby of the same primary was promoted too."""
    standby.promote()
    slot = SlotPosition("s", "7", "notify", start_lsn=1, position_lsn=2, timeline=2)
    with closing(connect(standby.dsn(standby.source.name), "LOADER_SOURCE_DSN")) as reader:
        timelines.check(reader, slot, is_standby=False)
        with pytest.raises(SourceBehind, match=r"is on timeline 2 since .* timeline 2 since 0/1:"):
            timelines.check(reader, replace(slot, timeline_began_lsn=1), is_standby=False)


def test_a_replay_that_is_paused_already_is_left_alone(standby: Standby) -> None:
    standby.ask("select pg_wal_replay_pause()")
    wait_until(lambda: standby.ask(STATE) == "paused")
    refused(standby, 44, "paused already", "select pg_wal_replay_resume();")
    assert standby.ask(STATE) == "paused"
    standby.ask("select pg_wal_replay_resume()")
    code, _, err = standby.source.seed(*standby.flags)
    assert code == 0, err
    assert standby.source.baseline() == standby.source.recount()


def test_a_promotion_while_it_reads_ends_the_seed(
    standby: Standby, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = incoming.write

    def promoted(*rows: Any) -> None:
        standby.promote()
        write(*rows)

    monkeypatch.setattr("seeding.job.write", promoted)
    refused(standby, 44, "the standby was promoted while the seed read it")


def test_a_conflict_with_replay_that_somebody_resumes_ends_the_seed(
    standby: Standby, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = incoming.write

    def resumed(*rows: Any) -> None:
        standby.ask("select pg_wal_replay_resume()")
        with standby.source.connect() as connection:
            connection.execute("truncate notifications")
        standby.catch_up()
        write(*rows)

    monkeypatch.setattr("seeding.job.write", resumed)
    refused(standby, 30, "the session that holds the snapshot or the table locks has ended")
    assert standby.ask(STATE) == "not paused"


def test_locks_that_replay_ends_before_it_pauses_are_taken_again(
    standby: Standby, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = counting.standby._paused
    conflicts = 0

    def conflict(*settings: Any) -> Any:
        nonlocal conflicts
        if conflicts:
            conflicts -= 1
            with standby.source.connect() as connection, connection.transaction():
                connection.execute("lock table notifications in access exclusive mode")
            standby.catch_up()
        return paused(*settings)

    monkeypatch.setattr(counting.standby, "_paused", conflict)
    conflicts = 1000
    ended = "replay ended the session that locked the tables"
    refused(standby, 31, f"before replay paused, {ended}, at each try for 2 s", timeout="2")
    assert standby.ask(STATE) == "not paused"
    conflicts = 1
    code, _, err = standby.source.seed(*standby.flags)
    assert code == 0, err
    assert ended in err
    assert standby.source.baseline() == standby.source.recount()


def test_a_primary_and_another_cluster_are_refused(standby: Standby) -> None:
    source = standby.source
    refused(standby, 44, "it is a primary", flags=("--standby", source.dsn))
    source.ask("update cdc.slot_position set system_identifier = '7' returning 1")
    standby.catch_up()
    refused(standby, 23, "of cluster 7")


def test_a_standby_that_is_behind_the_log_is_waited_for(
    standby: Standby, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = standby.source
    source.ask(
        "update cdc.slot_position set start_lsn = pg_current_wal_lsn() + 1000000,"
        " position_lsn = pg_current_wal_lsn() + 1000000 returning 1"
    )
    refused(standby, 32, "after 2 s the standby has replayed up to", timeout="2")
    assert standby.ask(STATE) == "not paused"
    replayed = counting.standby.replayed

    def behind(connection: Connection) -> int:
        source.ask("select pg_logical_emit_message(false, 'x', repeat('x', 300000))")
        return replayed(connection)

    monkeypatch.setattr(counting.standby, "replayed", behind)
    code, _, err = source.seed(*standby.flags)
    assert code == 0, err
    assert source.baseline() == source.recount()


def test_what_the_loader_does_not_follow_yet_is_waited_for(standby: Standby) -> None:
    standby.source.ask("update cdc.logged_table set held_since = '{}' returning 1")
    refused(standby, 41, "the log does not hold public.notifications", "running?", timeout="2")


def test_a_role_without_the_right_is_told_the_grant(standby: Standby) -> None:
    source = standby.source
    with source.connect() as connection:
        connection.execute(
            "drop role if exists counter; create role counter login;"
            "grant select on all tables in schema public to counter;"
        )
    try:
        standby.catch_up()
        dsn = standby.dsn(source.name, user="counter")
        flags = ("--standby", dsn)
        refused(standby, 15, "may not pause", flags=flags)
        _, _, err = source.seed(*flags)
        grant = err.split("in the same database: ")[1].splitlines()[0]
        with source.connect() as connection:
            connection.execute(grant.encode())
        standby.catch_up()
        code, _, err = source.seed(*flags, "--target", source.dsn)
        assert code == 0, err
        assert source.baseline() == source.recount()
    finally:
        with source.connect() as connection:
            connection.execute("drop owned by counter; drop role counter")


def test_a_terminated_seed_lets_replay_go_on(standby: Standby) -> None:
    source = standby.source
    with source.connect() as gate, gate.transaction():
        gate.execute(GATE)
        standby.catch_up()
        seed = source.start(*standby.flags)
        waits = "select count(*) >= 2 from pg_locks where not granted"
        wait_until(lambda: standby.ask(waits) or seed.poll() is not None)
        assert seed.poll() is None, seed.communicate()
        assert standby.ask(STATE) == "paused"
        seed.send_signal(signal.SIGTERM)
        wait_until(lambda: standby.ask(STATE) == "not paused")
    _, err = seed.communicate(timeout=120)
    assert seed.returncode != 0
    assert "Traceback" not in err
    assert source.ask("select from cdc.baseline") == []
