"""A seed from a physical standby is exact, spares the primary, and lets replay go on.

One standby for all tests: the one that promotes it is the last.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import counting.standby
import pytest
from common.connections import connect
from counting import checks
from seeding import store

from loader.staging.records import SlotPosition
from testkit.commands import wait_until
from testkit.servers import Cluster
from testkit.standbys import Standby
from tests.spark.support import GATE, Source, notify_source
from tests.spark.traffic import Writers, ends_as_a_recount
from waltally import lsn
from waltally.database import Connection
from waltally.errors import SourceBehind

FOLLOWED = """
    update cdc.logged_table set held_since = jsonb_build_object('*', start_lsn::text)
    from cdc.slot_position
"""
AS_BEFORE = f"""
    delete from cdc.baseline_group; delete from cdc.baseline;
    update cdc.slot_position set timeline = null,
        system_identifier = (select system_identifier::text from pg_control_system()),
        start_lsn = '0/1', position_lsn = '0/1';
    {FOLLOWED}
"""
STATE = "select pg_get_wal_replay_pause_state()"


class SeededStandby(Standby):
    """A streaming standby of the source's server, which seeds read."""

    def __init__(self, source: Source) -> None:
        delays = {"max_standby_streaming_delay": "50", "max_prepared_transactions": "5"}
        super().__init__(source.cluster, delays, "standby")
        self.source = source
        self.flags = ("--standby", self.dsn(source.name))

    @property
    def is_paused(self) -> bool:
        return self.ask(STATE) != "not paused"

    def refuses(self, code: int, *words: str, flags: tuple[str, ...] = ()) -> str:
        """Run the seed and see it end with this exit code and these words, and nothing stored."""
        found, _, err = self.source.seed(*self.flags, "--timeout", "60", *flags)
        assert found == code, err
        assert [word for word in words if word not in err] == [], err
        assert "Traceback" not in err
        assert self.source.execute("select 1 from cdc.baseline") == []
        return err


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[SeededStandby]:
    with notify_source(cluster) as source:
        source.fill()
        made = SeededStandby(source)
        try:
            made.start()
            yield made
        finally:
            made.remove()
            dropped = "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
            free = f"{dropped} where slot_name = 'standby' and not active"
            wait_until(lambda: source.execute(free))


@pytest.fixture
def standby(running: SeededStandby) -> SeededStandby:
    running.source.execute(AS_BEFORE)
    running.catch_up()
    return running


def test_a_seed_amid_writers_and_the_stream_from_its_position_are_a_recount(
    standby: SeededStandby,
) -> None:
    """What is only prepared at the position comes from the stream."""
    source = standby.source
    source.execute("select pg_create_logical_replication_slot('truth', 'wal2json')")
    with source.session() as session:
        session.ask("begin")
        session.ask(
            "update notifications set notification_status = 'moved' where"
            " notification_status = 'sent'"
        )
        session.ask("prepare transaction 'open'")
    try:
        with Writers(source, 3):
            standby.catch_up()
            # The source's connection string leads nowhere: nothing connects to it.
            code, out, err = source.seed(
                *("--json", "--source", "host=127.0.0.1 port=1", "--target", source.dsn),
                *standby.flags,
            )
    finally:
        source.execute("commit prepared 'open'")
    assert code == 0, err
    assert not standby.is_paused
    ends_as_a_recount(source, lsn.parse(json.loads(out)["snapshot_lsn"]))
    source.execute("select pg_drop_replication_slot('truth')")


REFUSED = [
    # It has the same identifier, and rows that the server which the loader follows never had.
    (
        "update cdc.slot_position set timeline = 2",
        (25, "the standby is on timeline 1, and the loader follows timeline 2"),
    ),
    ("update cdc.slot_position set system_identifier = '7'", (23, "of cluster 7")),
    (
        "update cdc.logged_table set held_since = '{}'",
        (41, "the log does not hold public.notifications"),
    ),
]


def test_a_standby_that_the_log_does_not_go_with_and_a_primary_are_refused(
    standby: SeededStandby,
) -> None:
    for sql, (code, words) in REFUSED:
        standby.source.execute(AS_BEFORE)
        standby.source.execute(sql)
        standby.catch_up()
        standby.refuses(code, words, flags=("--timeout", "1"))
        assert not standby.is_paused
    standby.refuses(44, "it is a primary", flags=("--standby", standby.source.dsn))


def test_a_replay_that_is_paused_already_is_left_alone(standby: SeededStandby) -> None:
    standby.ask("select pg_wal_replay_pause()")
    wait_until(lambda: standby.ask(STATE) == "paused")
    standby.refuses(44, "paused already", "select pg_wal_replay_resume();")
    assert standby.ask(STATE) == "paused"
    standby.ask("select pg_wal_replay_resume()")


def test_a_standby_that_is_behind_the_log_is_waited_for(
    standby: SeededStandby, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = standby.source
    source.execute(
        "update cdc.slot_position set start_lsn = pg_current_wal_lsn() + 1000000,"
        " position_lsn = pg_current_wal_lsn() + 1000000"
    )
    source.execute(FOLLOWED)
    said = "after 1 s the standby has replayed up to"
    standby.refuses(32, said, flags=("--timeout", "1"))
    assert not standby.is_paused
    replayed = counting.standby.replayed

    def behind(connection: Connection) -> int:
        source.execute("select pg_logical_emit_message(false, 'x', repeat('x', 300000))")
        return replayed(connection)

    monkeypatch.setattr(counting.standby, "replayed", behind)
    source.must_seed(*standby.flags)
    assert source.baseline() == source.recount()


def test_a_role_without_the_right_is_told_the_grant(standby: SeededStandby) -> None:
    source = standby.source
    source.execute(
        "create role counter login; grant select on all tables in schema public to counter"
    )
    try:
        standby.catch_up()
        flags = ("--standby", standby.dsn(source.name, user="counter"))
        err = standby.refuses(15, "may not pause", flags=flags)
        source.execute(err.split("in the same database: ")[1].splitlines()[0])
        standby.catch_up()
        source.must_seed(*flags, "--target", source.dsn)
    finally:
        source.execute("drop owned by counter; drop role counter")


def test_locks_that_replay_ends_before_it_pauses_are_taken_again(
    standby: SeededStandby, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, paused, conflicts = standby.source, counting.standby._paused, iter(range(1000))

    def conflict(monitor: Any, conninfo: str, deadline: float, settings: Any) -> Any:
        if next(conflicts, None) is not None:
            with source.session() as session, session.transaction():
                session.ask("lock table notifications in access exclusive mode")
            standby.catch_up()
        # The pause itself takes long enough, however late it begins.
        return paused(monitor, conninfo, deadline + 60, settings)

    monkeypatch.setattr(counting.standby, "_paused", conflict)
    ended = "replay ended the session that locked the tables"
    said = f"before replay paused, {ended}, at each try for 1 s"
    standby.refuses(31, said, flags=("--timeout", "1"))
    assert not standby.is_paused
    conflicts = iter(range(1))
    code, _, err = source.seed(*standby.flags)
    assert code == 0, err
    assert ended in err
    assert source.baseline() == source.recount()


@pytest.mark.slow
def test_a_terminated_seed_lets_replay_go_on(standby: SeededStandby) -> None:
    source = standby.source
    # The first session of a database reads every catalog, also the one that the gate locks.
    connect(standby.dsn(source.name), "standby").close()
    with source.session() as gate, gate.transaction():
        gate.ask(GATE)
        standby.catch_up()
        seed = source.start(*standby.flags)
        waits = "select count(*) >= 2 from pg_locks where not granted"
        wait_until(lambda: standby.ask(waits) or seed.poll() is not None)
        assert seed.poll() is None, seed.communicate()
        assert standby.ask(STATE) == "paused"
        seed.send_signal(signal.SIGTERM)
        wait_until(lambda: not standby.is_paused)
    _, err = seed.communicate(timeout=120)
    assert seed.returncode != 0
    assert "Traceback" not in err
    assert source.execute("select 1 from cdc.baseline") == []


def test_a_conflict_with_replay_that_somebody_resumes_ends_the_seed(
    standby: SeededStandby, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = store.write

    def resumed(*rows: Any) -> None:
        standby.ask("select pg_wal_replay_resume()")
        standby.source.execute("truncate notifications")
        standby.catch_up()
        write(*rows)

    monkeypatch.setattr("seeding.job.write", resumed)
    standby.refuses(30, "the session that holds the snapshot or the table locks has ended")
    assert not standby.is_paused


def test_a_promotion_while_it_reads_ends_the_seed(
    standby: SeededStandby, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = store.write

    def promoted(*rows: Any) -> None:
        standby.promote()
        write(*rows)

    monkeypatch.setattr("seeding.job.write", promoted)
    standby.refuses(44, "the standby was promoted while the seed read it")

    # A timeline of the same number that began elsewhere is of another standby's promotion.
    slot = SlotPosition("s", "7", "notify", start_lsn=1, position_lsn=2, timeline=2)
    with closing(connect(standby.dsn(standby.source.name), "source")) as reader:
        checks.timeline(reader, slot, is_standby=False)
        with pytest.raises(SourceBehind, match=r"is on timeline 2 since .* timeline 2 since 0/1:"):
            checks.timeline(reader, replace(slot, timeline_began_lsn=1), is_standby=False)
