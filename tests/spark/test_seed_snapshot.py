"""The snapshot that a seed holds: what it waits for, what it locks, and for whom it makes way."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from waltally_jobs.common.arrow import queries, spread
from waltally_jobs.common.connections import connect
from waltally_jobs.common.errors import CountingFailed, SnapshotBlocked, spark_errors
from waltally_jobs.evaluation import snapshot

from testkit.commands import wait_until
from testkit.model import notify
from testkit.pipeline import Pipeline
from tests.spark.support import Clock, Source, exported, job_settings, notifications_in
from waltally.database import Connection

PARTITIONED = """
    alter table notifications rename to former;
    create table notifications (like former) partition by list (notification_status);
    create table leaf partition of notifications {}
"""
TEMPORARY = "select 1 from pg_replication_slots where temporary and database = current_database()"

# Locks.


def lock_against(source: Source, application: Connection, holds: str) -> set[str]:
    """Let the seed lock while the application holds a table and then asks for notifications.

    The application asks while the seed waits for what it holds. Returns what the seed has locked.
    """
    waiting = "select count(*) from pg_locks where not granted and relation = %s::regclass"
    with closing(connect(source.dsn, "source")) as locks:
        deadline = time.monotonic() + 60
        settings = job_settings(source, timeout=60)
        seed = threading.Thread(target=snapshot.lock, args=(locks, settings, [notify()], deadline))
        with application.transaction():
            application.ask(f"lock table {holds}")
            seed.start()
            wait_until(lambda: source.value(waiting, holds) == 1)
            application.ask("lock table notifications")
        seed.join(60)
        held = "select relation::regclass::text from pg_locks where pid = %s"
        return {name for (name,) in source.execute(held, locks.info.backend_pid)}


@pytest.mark.parametrize(
    ("holds", "wait_ms", "before"),
    [
        ("notification_history", None, "select"),
        # A server without a free CPU may look for a deadlock before it sees that the wait is over.
        ("notification_history", 30_000, "set deadlock_timeout = '1h'"),
        # A leaf is never waited for with a lock of the whole table.
        ("leaf", None, PARTITIONED.format("default")),
    ],
)
def test_an_application_that_locks_in_another_order_is_never_in_a_deadlock(
    source: Source, monkeypatch: pytest.MonkeyPatch, holds: str, wait_ms: int | None, before: str
) -> None:
    if wait_ms is not None:
        monkeypatch.setattr(snapshot, "_WAIT_WHILE_HOLDING_MS", wait_ms)
    with source.session() as application:
        application.ask(before)
        assert lock_against(source, application, holds) >= {"notifications", holds}


@contextmanager
def before_the_locks(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], times: int = 1
) -> Iterator[None]:
    """Let this happen between the snapshot and the locks, at the first tries."""
    lock, left = snapshot.lock, iter(range(times))

    def acted(*arguments: Any) -> None:
        if next(left, None) is not None:
            act()
        lock(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "lock", acted)
        yield


def test_a_table_that_stays_locked_times_out(
    source: Source, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lock() -> None:
        altering.ask("lock table notification_history")
        clock.ahead = 29.5

    with (
        source.session() as altering,
        before_the_locks(monkeypatch, lock),
        altering.transaction(),
        pytest.raises(SnapshotBlocked, match="notification_history was still locked after 30 s"),
        exported(source),
    ):
        pass


def test_a_truncate_that_waits_for_the_locks_holds_nobody_up(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What asks for the table after it waits behind it, and must not be the seed."""
    lock = snapshot.lock
    with source.session() as application, ThreadPoolExecutor(1) as pool:

        def locked(*arguments: Any) -> None:
            lock(*arguments)
            truncating.append(pool.submit(application.ask, "truncate notifications"))
            wait_until(lambda: source.waiting("relation"))

        truncating: list[Any] = []
        monkeypatch.setattr(snapshot, "lock", locked)
        with exported(source) as held:
            assert held.position
        truncating[0].result(60)


def test_a_seed_that_waits_for_writers_is_in_nobodys_way(source: Source) -> None:
    """A TRUNCATE by the writer that the snapshot waits for: each would wait for the other."""

    def count() -> int:
        with exported(source) as held:
            return notifications_in(source, held)

    source.insert(3)
    with source.session() as writer, ThreadPoolExecutor(1) as pool:
        writer.ask("set lock_timeout = '20s'")
        with writer.transaction():
            writer.ask("insert into unrelated (note) values ('open')")
            counting = pool.submit(count)
            wait_until(lambda: source.execute(TEMPORARY))
            writer.ask("truncate notifications")
        assert counting.result(60) == 0


@pytest.mark.parametrize(
    "ddl",
    [
        "truncate notifications",
        "alter table notifications drop notification_type;"
        " alter table notifications add notification_type text default 'sms'",
        "drop table notifications; create table notifications (like former including defaults)",
    ],
)
def test_ddl_between_the_snapshot_and_the_locks_makes_a_new_snapshot(
    source: Source, monkeypatch: pytest.MonkeyPatch, ddl: str
) -> None:
    source.fill()
    messages: list[str] = []
    source.execute("create table former (like notifications including defaults)")
    with (
        before_the_locks(monkeypatch, lambda: source.execute(ddl)),
        exported(source, notify=messages.append) as held,
    ):
        assert notifications_in(source, held) == source.value("select count(*) from notifications")
    assert "public.notifications was truncated, altered or given partitions" in messages[0]


def test_ddl_at_each_try_times_out(
    source: Source, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def truncate() -> None:
        source.execute("truncate notifications")
        clock.ahead += 15

    with (
        before_the_locks(monkeypatch, truncate, 1000),
        pytest.raises(SnapshotBlocked, match=r"notifications was truncated.* at each try for 30 s"),
        exported(source),
    ):
        pass


# Transactions that it waits for.


def test_a_seed_names_who_it_waits_for_and_how_that_ends(source: Source) -> None:
    insert = "begin; insert into unrelated (note) values ('open')"
    with source.session(application="nightly batch") as writer:
        writer.ask(insert)
        with pytest.raises(SnapshotBlocked) as caught, exported(source, timeout=0.5):
            pass
        assert f"pid {writer.info.backend_pid} (postgres nightly batch) open for" in str(caught)
        writer.ask("rollback")
        wait_until(lambda: not source.execute(TEMPORARY))
        writer.ask(f"{insert}; prepare transaction 'forgotten'")
    with pytest.raises(SnapshotBlocked) as caught, exported(source, timeout=0.5):
        pass
    assert "now prepared transaction 'forgotten' (postgres) open for" in str(caught.value)
    source.execute(re.findall(r"rollback prepared '.*?'", caught.value.remedy)[0])
    wait_until(lambda: not source.execute(TEMPORARY))


@contextmanager
def half_ended_commit(source: Source) -> Iterator[None]:
    """A commit whose record is written and which does not end before the block does."""
    waits = "from pg_stat_activity where wait_event = 'SyncRep' and datname = current_database()"
    commit = (
        "set synchronous_commit = on; insert into notifications"
        " (\"to\", notification_type) values ('late', 'sms')"
    )
    with source.session() as session, ThreadPoolExecutor(1) as pool:
        committing = pool.submit(session.ask, commit)
        wait_until(lambda: source.execute(f"select 1 {waits}"))
        try:
            yield
        finally:
            # Cancelled while it waits for the standby, the commit ends with a warning.
            source.execute(f"select pg_cancel_backend(pid) {waits}")
            committing.result(60)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_half_ended_commit_below_the_position_is_waited_for(
    source: Source, clock: Clock, is_late: bool
) -> None:
    messages: list[str] = []

    def count() -> int:
        with exported(source, timeout=300, notify=messages.append) as held:
            return notifications_in(source, held)

    def waited_for(session: Connection) -> bool:
        return bool(
            source.execute(
                "select 1 from pg_locks where locktype = 'transactionid' and not granted"
                " and transactionid = any(select transactionid from pg_locks"
                " where granted and locktype = 'transactionid' and pid = %s)",
                session.info.backend_pid,
            )
        )

    # The slot waits for the first writer, then for those that run when it ends: the second. What
    # commits in that time is in the snapshot by its commit record alone.
    insert = "begin; insert into unrelated (note) values ('open')"
    with source.session() as first, source.session() as second, ThreadPoolExecutor(1) as pool:
        first.ask(insert)
        counting = pool.submit(count)
        wait_until(lambda: waited_for(first))
        second.ask(insert)
        first.ask("commit")
        wait_until(lambda: waited_for(second))
        # Most servers of November 2026 wait for such a commit themselves before the slot is made.
        # 15.18 and 18.6 do not, and there our own guard must.
        with half_ended_commit(source):
            second.ask("commit")
            if is_late:
                clock.ahead = 300
                expected = r"(waits for every|has not ended its commit).*now pid"
                with pytest.raises(SnapshotBlocked, match=expected):
                    counting.result(60)
            else:
                wait_until(lambda: messages)
                assert re.match(r"waiting for (writers|commits to end), now pid", messages[-1])
                assert not counting.done()
        if not is_late:
            assert counting.result(60) == 1


def test_the_log_is_not_pruned_between_the_check_and_the_baseline(pipeline: Pipeline) -> None:
    pipeline.source.begin_block()
    pipeline.begin()
    with (
        pipeline.follow("--build"),
        closing(pipeline.session("postgres")) as holder,
        ThreadPoolExecutor(1) as pool,
    ):
        with holder.transaction():
            holder.ask("lock table cdc.baseline_group in share mode")
            seed = pool.submit(pipeline.spark_job, "spark-submit spark/seed.py")
            waiting = "select count(*) from pg_locks where not granted and relation = %s::regclass"
            wait_until(lambda: pipeline.target.value(waiting, "cdc.baseline_group"))
            for _ in range(2):
                pipeline.source.begin_block()
                pipeline.source.insert(2)
                pipeline.must("wait")
            # Else a rebuild from the baseline of before would keep it.
            pipeline.target.execute(
                "insert into cdc.archive_position (slot_name, location, from_lsn, archived_lsn)"
                " select slot_name, '/archive', start_lsn, position_lsn from cdc.slot_position"
            )
            pipeline.refused("prune", "--keep", "0s", "--timeout", "1")
        seed.result()
    pipeline.build()
    assert pipeline.differences() == []
    assert "Dropped 2 partitions" in pipeline.must("prune", "--keep", "0s")


def test_more_tasks_than_the_server_lets_in_is_said_with_what_helps(
    source: Source, spark: SparkSession
) -> None:
    """Spark has a session for each core, and a large machine has more than a server gives."""
    source.execute("create role crowded login connection limit 0")
    dsn = source.cluster.dsn(source.name, "crowded")
    try:
        with pytest.raises(CountingFailed) as refused, spark_errors("seed", lambda: None):
            reads = queries(dsn, ["select 1::bigint as one"])
            spread(spark, reads, lambda batches: batches, "one bigint").collect()
    finally:
        source.execute("drop role crowded")
    assert "too many connections for role" in refused.value.sentence
    assert "`spark-submit --master local[2] spark/seed.py`" in refused.value.remedy


def test_what_a_task_itself_raises_is_said(spark: SparkSession) -> None:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise ZeroDivisionError("a rule of ours divides")

    says = "^a task failed: ZeroDivisionError: a rule of ours divides$"
    with pytest.raises(CountingFailed, match=says), spark_errors("seed"):
        spark.range(1).mapInArrow(fail, "id bigint").collect()


def test_partitions_that_come_after_the_snapshot_are_in_the_next(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.execute(PARTITIONED.format("for values in ('a')"))
    source.execute("create table late (like notifications)")
    attach = "alter table notifications attach partition late default"
    with before_the_locks(monkeypatch, lambda: source.execute(attach)), exported(source) as held:
        found = {str(leaf.table) for _, leaves in held.found for leaf in leaves}
    assert found >= {"public.late", "public.leaf"}
