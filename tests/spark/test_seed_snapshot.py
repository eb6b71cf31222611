"""The snapshot that a seed holds: what it waits for, and what makes a new one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from waltally_jobs.common.arrow import batches, collected
from waltally_jobs.common.errors import CountingFailed, SnapshotBlocked, spark_errors

from testkit.commands import wait_until
from testkit.pipeline import Pipeline
from tests.spark.support import (
    Clock,
    Source,
    exported,
    meanwhile,
    notifications_in,
)
from waltally.database import Connection

PARTITIONED = """
    alter table notifications rename to former;
    create table notifications (like former) partition by list (notification_status);
    create table leaf partition of notifications {}
"""
SIZES = "evaluation.snapshot._sized"
TEMPORARY = "select 1 from pg_replication_slots where temporary and database = current_database()"


def test_a_table_that_stays_locked_times_out(
    source: Source, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lock() -> None:
        altering.ask("lock table notification_history")
        clock.ahead = 29.5

    meanwhile(monkeypatch, SIZES, before=lock)
    says = "a table was still locked after 30 s"
    with source.session() as altering, altering.transaction():
        refused(source, says)


def refused(source: Source, says: str, timeout: float = 30) -> str:
    """See that no snapshot is made, and return the remedy."""
    with pytest.raises(SnapshotBlocked, match=says) as caught, exported(source, timeout=timeout):
        pass
    wait_until(lambda: not source.execute(TEMPORARY))
    return caught.value.remedy


def test_a_seed_that_waits_for_writers_is_in_nobodys_way(source: Source) -> None:
    """A TRUNCATE by the writer that the snapshot waits for: each would wait for the other."""
    source.insert(3)
    with source.session() as writer, ThreadPoolExecutor(1) as pool:
        writer.ask("set lock_timeout = '20s'")
        with writer.transaction():
            writer.ask("insert into unrelated (note) values ('open')")
            counting = pool.submit(count, source)
            wait_until(lambda: source.execute(TEMPORARY))
            writer.ask("truncate notifications")
        assert counting.result(60) == 0


def count(source: Source, timeout: float = 30) -> int:
    """Return how many notifications a snapshot has."""
    with exported(source, timeout=timeout) as held:
        return notifications_in(source, held)


@pytest.mark.parametrize(
    ("before", "ddl"),
    [
        ("select", "truncate notifications"),
        (
            "select",
            "alter table notifications drop notification_type;"
            " alter table notifications add notification_type text default 'sms'",
        ),
        (
            "create table former (like notifications including defaults)",
            "drop table notifications; create table notifications (like former)",
        ),
        (
            PARTITIONED.format("for values in ('a')")
            + "; create table late (like former); insert into late select * from former",
            "alter table notifications attach partition late default",
        ),
    ],
)
def test_ddl_after_the_snapshot_makes_a_new_one(
    source: Source,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    before: str,
    ddl: str,
) -> None:
    source.insert(5)
    source.execute(before)
    meanwhile(monkeypatch, SIZES, after=lambda _: source.execute(ddl))
    with exported(source) as held:
        assert notifications_in(source, held) == source.value("select count(*) from notifications")
    said = "public.notifications was truncated, altered or given partitions"
    assert said in capsys.readouterr().err


def test_ddl_at_each_try_times_out(
    source: Source, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def truncate(_: object) -> None:
        source.execute("truncate notifications")
        clock.ahead += 15

    meanwhile(monkeypatch, SIZES, after=truncate, times=1000)
    refused(source, r"notifications was truncated.* at each try for 30 s")


# Transactions that it waits for.


def test_a_seed_names_who_it_waits_for_and_how_that_ends(source: Source) -> None:
    insert = "begin; insert into unrelated (note) values ('open')"
    with source.session(application="nightly batch") as writer:
        writer.ask(insert)
        refused(source, rf"pid {writer.info.backend_pid} \(postgres nightly batch\) open for", 0.5)
        writer.ask(f"rollback; {insert}; prepare transaction 'forgotten'")
    says = r"now prepared transaction 'forgotten' \(postgres\) open for"
    remedy = refused(source, says, 0.5)
    source.execute(re.findall(r"rollback prepared '.*?'", remedy)[0])


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
    source: Source, clock: Clock, is_late: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def is_waited_for(session: Connection) -> bool:
        blockers = "select 1 from pg_stat_activity where %s = any(pg_blocking_pids(pid))"
        return bool(source.execute(blockers, session.info.backend_pid))

    # The slot waits for the first writer, then for those that run when it ends: the second. What
    # commits in that time is in the snapshot by its commit record alone.
    insert = "begin; insert into unrelated (note) values ('open')"
    with source.session() as first, source.session() as second, ThreadPoolExecutor(1) as pool:
        first.ask(insert)
        counting = pool.submit(count, source, 300)
        wait_until(lambda: is_waited_for(first))
        second.ask(insert)
        first.ask("commit")
        wait_until(lambda: is_waited_for(second))
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
                said = wait_until(lambda: capsys.readouterr().err)
                assert re.search(r"waiting for (writers|commits to end), now pid", said)
                assert not counting.done()
        if not is_late:
            assert counting.result(60) == 1


def test_a_prune_keeps_what_a_running_seed_needs(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a seed that takes longer than what is kept would never end."""
    pipeline.source.begin_block()
    pipeline.begin()

    def go_on() -> None:
        for _ in range(2):
            pipeline.source.begin_block()
            pipeline.source.insert(2)
            pipeline.must("wait")

    def prune() -> None:
        said = pipeline.must("prune", "--keep", "0s")
        assert f"a seed of slot {pipeline.slot} counts at" in said, said
        assert "Dropped" not in said, said

    # The model stays as it is from the begin of the transaction that stores its baseline.
    meanwhile(monkeypatch, "evaluation.queries.count", before=go_on)
    for moment in ("seeding.store.replace", "seeding.store._replace_one"):
        meanwhile(monkeypatch, moment, before=prune)
    with pipeline.follow("--build"):
        pipeline.spark_job("spark-submit spark/seed.py")
    pipeline.build()
    assert pipeline.differences() == []
    assert "Dropped 2 partitions" in pipeline.must("prune", "--keep", "0s")


def test_more_tasks_than_the_server_lets_in_is_said_with_what_helps(
    source: Source, spark: SparkSession
) -> None:
    """Spark has a session for each core, and a large machine has more than a server gives."""
    source.execute("create role crowded login connection limit 0")
    try:
        read = partial(batches, source.cluster.dsn(source.name, "crowded"), "select 1 as one")
        with pytest.raises(CountingFailed) as refused, spark_errors("seed"):
            collected(spark, [read], "one int", "reading")
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
