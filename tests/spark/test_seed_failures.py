from __future__ import annotations

import os
import re
import signal
import threading
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from common.arrow_source import rows
from common.connections import connect
from common.errors import CountingFailed, SnapshotBlocked
from common.settings import Settings
from common.spark_errors import spark_errors
from counting import snapshot
from psycopg.conninfo import make_conninfo
from pyspark.sql import SparkSession

from testkit.commands import wait_until
from testkit.facts import notify
from tests.spark.support import TABLES, Clock, Source


def settings(source: Source, timeout: float) -> Settings:
    return Settings(source.dsn, source.dsn, source.slot, "cdc", timeout=timeout)


@pytest.mark.slow
def test_a_killed_seed_leaves_the_previous_one_and_a_second_runs_after_it(source: Source) -> None:
    source.fill()
    source.previous_seed()
    with source.seed_at_a_closed_gate() as killed:
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        assert source.has_previous_seed()
    wait_until(
        lambda: (
            not source.ask(
                "select 1 from pg_stat_activity where application_name = 'waltally seed'"
            )
        )
    )
    assert source.has_previous_seed()

    before = source.recount()
    with source.seed_at_a_closed_gate() as seed:
        code, _, err = source.seed("--timeout", "0.1")
        assert (code, "another seed of slot" in err) == (33, True), err

        truncate = threading.Thread(target=truncate_both, args=(source,))
        truncate.start()
        wait_until(lambda: source.waiting("relation") == 3)
        assert source.has_previous_seed()
    _, err = seed.communicate(timeout=120)
    truncate.join()
    assert seed.returncode == 0, err
    assert source.baseline() == before
    assert source.recount() == {table: {} for table in TABLES}
    assert not source.incoming_tables()


def test_a_seed_killed_amid_the_swap_leaves_the_previous_one(source: Source) -> None:
    source.fill()
    source.previous_seed()
    with source.connect() as other, other.transaction():
        other.execute("lock table cdc.baseline in exclusive mode")
        killed = source.start()
        # The counts are swapped in the open transaction, the seed's own row is not.
        wait_until(lambda: source.waiting("relation") == 1)
        # The driver first: it outlives the JVM that started it, and would end the swap.
        for children in Path(f"/proc/{killed.pid}/task").glob("*/children"):
            for child in children.read_text().split():
                os.kill(int(child), signal.SIGKILL)
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
    wait_until(
        lambda: (
            not source.ask(
                "select 1 from pg_stat_activity where application_name = 'waltally seed'"
            )
        )
    )
    assert source.has_previous_seed()


def truncate_both(source: Source) -> None:
    with source.connect() as connection:
        connection.execute("truncate notifications, notification_history")


@pytest.mark.parametrize("session", ["slot", pytest.param("locks", marks=pytest.mark.slow)])
def test_the_seed_fails_when_a_holder_is_terminated(source: Source, session: str) -> None:
    source.fill()
    source.previous_seed()
    holder = (
        "select active_pid from pg_replication_slots where slot_name ~ '^waltally_seed_'"
        if session == "slot"
        else "select pid from pg_stat_activity where datname = current_database()"
        " and state = 'idle in transaction' and query ~ 'pg_inherits'"
    )
    with source.seed_at_a_closed_gate() as seed:
        assert source.ask(f"select pg_terminate_backend(({holder}))") == [(True,)]
        # The job must not wait for its readers to come to an end.
        _, err = seed.communicate(timeout=120)
    assert seed.returncode == 30, err
    assert "the session that holds the snapshot or the table locks has ended" in err
    assert "Traceback" not in err and "\tat " not in err
    assert source.has_previous_seed()


def test_a_row_that_cannot_be_read_fails_the_seed_in_one_sentence(source: Source) -> None:
    source.fill()
    source.previous_seed()
    with source.connect() as connection:
        connection.execute(
            "delete from pg_enum where enumlabel = 'sms'"
            " and enumtypid = 'notification_type'::regtype"
        )
    code, out, err = source.seed()
    assert (code, out) == (34, ""), err
    assert (
        "invalid internal value for enum" in err and "Traceback" not in err and "\tat " not in err
    )
    assert source.has_previous_seed()


def test_a_seed_that_waits_for_a_writer_names_it_and_times_out(source: Source) -> None:
    with (
        source.connect(application="nightly batch") as writer,
        closing(connect(source.dsn, "LOADER_SOURCE_DSN")) as monitor,
        writer.transaction(),
    ):
        writer.execute("insert into unrelated (note) values ('open')")
        with (
            pytest.raises(SnapshotBlocked) as caught,
            snapshot.export(settings(source, 0.5), [notify()], monitor, print),
        ):
            pass
        assert f"pid {writer.info.backend_pid} (postgres nightly batch) open for" in str(caught)
    wait_until(lambda: not source.ask("select 1 from pg_replication_slots where temporary"))


def test_a_seed_that_waits_for_a_prepared_transaction_says_how_it_ends(source: Source) -> None:
    with source.connect() as admin, closing(connect(source.dsn, "LOADER_SOURCE_DSN")) as monitor:
        admin.execute("begin")
        admin.execute("insert into unrelated (note) values ('open')")
        admin.execute("prepare transaction 'forgotten'")
        with (
            pytest.raises(SnapshotBlocked) as caught,
            snapshot.export(settings(source, 0.5), [notify()], monitor, print),
        ):
            pass
        assert "now prepared transaction 'forgotten' (postgres) open for" in str(caught.value)
        statement = re.findall(r"rollback prepared '.*?'", caught.value.remedy)[0]
        admin.execute(statement)
    wait_until(lambda: not source.ask("select 1 from pg_replication_slots where temporary"))


class Committing:
    """A commit whose record is written and which does not end before the standby setting goes."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._thread = threading.Thread(target=self._commit)

    def start(self) -> None:
        self._thread.start()
        wait_until(
            lambda: self._source.ask(
                "select 1 from pg_stat_activity where wait_event = 'SyncRep'"
                " and datname = current_database()"
            )
        )

    def end(self) -> None:
        with self._source.connect() as connection:
            connection.execute(
                "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"
                " and datname = current_database()"
            )
        self._thread.join()

    def _commit(self) -> None:
        with self._source.connect() as connection:
            # Cancelled while it waits for the standby, the commit ends with a warning.
            connection.execute(
                "set synchronous_commit = on; insert into notifications"
                " (\"to\", notification_type) values ('late', 'sms')"
            )


@pytest.mark.parametrize("is_late", [False, True])
def test_a_half_ended_commit_below_the_position_is_waited_for(
    source: Source, clock: Clock, is_late: bool
) -> None:
    messages: list[str] = []
    outcome: list[int | SnapshotBlocked] = []
    committing = Committing(source)

    def hold() -> None:
        try:
            with (
                closing(connect(source.dsn, "LOADER_SOURCE_DSN")) as monitor,
                snapshot.export(
                    settings(source, 300), [notify()], monitor, messages.append
                ) as exported,
                source.connect(autocommit=False) as reader,
            ):
                reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                reader.execute(f"set transaction snapshot '{exported.name}'")
                found = reader.execute("select count(*) from notifications").fetchone()
                outcome.append(found[0] if found else -1)
        except SnapshotBlocked as error:
            outcome.append(error)

    # The slot waits for the first writer, then for those that run when it ends: the second. What
    # commits in that time is in the snapshot by its commit record alone.
    first, second = source.connect(autocommit=False), source.connect(autocommit=False)
    first.execute("insert into unrelated (note) values ('first')")
    holding = threading.Thread(target=hold)
    holding.start()
    waits_for = (
        "select 1 from pg_locks where locktype = 'transactionid' and not granted"
        " and transactionid = any(select transactionid from pg_locks"
        " where granted and locktype = 'transactionid' and pid = %s)"
    )
    wait_until(lambda: source.ask(waits_for, first.info.backend_pid))
    second.execute("insert into unrelated (note) values ('second')")
    first.commit()
    wait_until(lambda: source.ask(waits_for, second.info.backend_pid))
    committing.start()
    second.commit()
    # Most servers of November 2026 wait for such a commit themselves before the slot is made. 15.18
    # and 18.6 do not, and there our own guard must.
    try:
        if is_late:
            clock.ahead = 300
            holding.join()
            assert isinstance(outcome[0], SnapshotBlocked)
            assert re.search(r"waits for every|has not ended its commit", str(outcome[0]))
            assert "now pid" in str(outcome[0])
        else:
            wait_until(lambda: messages)
            assert re.match(r"waiting for (writers|commits to end), now pid", messages[-1])
            assert not outcome
    finally:
        committing.end()
        holding.join()
    if not is_late:
        assert outcome == [1]
    first.close()
    second.close()


def test_more_tasks_than_the_server_lets_in_is_said_with_what_helps(
    source: Source, spark: SparkSession
) -> None:
    """Spark has a session for each core, and a large machine has more than a server gives."""
    with source.connect() as admin:
        admin.execute("create role crowded login connection limit 1")
    dsn = make_conninfo(source.dsn, user="crowded")
    try:
        with (
            closing(psycopg.connect(dsn)),
            pytest.raises(CountingFailed) as refused,
            spark_errors("seed", lambda: None),
        ):
            rows(spark, dsn, ["select 1::bigint as one"], "one bigint").collect()
    finally:
        with source.connect() as admin:
            admin.execute("drop role crowded")
    assert "too many connections for role" in refused.value.sentence
    assert "`spark-submit --master local[2] spark/seed.py`" in refused.value.remedy
