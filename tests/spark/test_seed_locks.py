"""What the seed locks, when, and for whom it makes way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from common.connections import connect, database_errors
from common.errors import SnapshotBlocked
from common.settings import Settings
from counting import snapshot

from testkit.commands import wait_until
from testkit.facts import notify
from tests.spark.support import Clock, Source
from waltally.errors import Interrupted


def settings(source: Source, timeout: float = 30) -> Settings:
    return Settings(source.dsn, source.dsn, source.slot, "cdc", timeout=timeout)


def lock_against(source: Source, application: psycopg.Connection[Any], holds: str) -> list[str]:
    """Let the seed lock while the application holds a table and then asks for notifications.

    The application asks while the seed waits for what it holds. Returns what the seed has locked.
    """
    waiting = "select count(*) from pg_locks where not granted and relation = %s::regclass"
    with closing(connect(source.dsn, "LOADER_SOURCE_DSN")) as locks:
        deadline = time.monotonic() + 60
        seed = threading.Thread(
            target=snapshot.lock, args=(locks, settings(source, 60), [notify()], deadline)
        )
        with application.transaction():
            application.execute(f"lock table {holds}".encode())
            seed.start()
            wait_until(lambda: source.ask(waiting, holds) == [(1,)])
            application.execute("lock table notifications")
        seed.join(60)
        held = source.ask(
            "select relation::regclass::text from pg_locks where pid = %s", locks.info.backend_pid
        )
    return [name for (name,) in held]


def test_an_application_that_locks_in_another_order_is_never_in_a_deadlock(source: Source) -> None:
    with source.connect() as application:
        held = lock_against(source, application, "notification_history")
    assert {"notifications", "notification_history"} <= set(held)


def test_the_seed_gives_way_where_the_server_sees_the_deadlock_first(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server without a free CPU may look for it before it sees that the wait is over."""
    monkeypatch.setattr(snapshot, "_WAIT_WHILE_HOLDING_MS", 30_000)
    with source.connect() as application:
        application.execute("set deadlock_timeout = '1h'")
        held = lock_against(source, application, "notification_history")
    assert {"notifications", "notification_history"} <= set(held)


def test_leaves_are_never_waited_for_with_a_lock(source: Source) -> None:
    """Or the application that holds a leaf and asks for the whole table meets a deadlock."""
    with source.connect() as application:
        application.execute(
            "alter table notifications rename to former;"
            "create table notifications (like former) partition by list (notification_status);"
            "create table leaf partition of notifications default"
        )
        held = lock_against(source, application, "leaf")
    assert {"notifications", "leaf"} <= set(held)


def test_a_deadlock_is_said_with_who_waited_for_whom(source: Source) -> None:
    locked = "lock table {}"
    with source.connect() as one, source.connect() as other:
        other.execute("set deadlock_timeout = '1h'")
        with other.transaction():
            other.execute(locked.format("notifications"))
            with (
                pytest.raises(Interrupted, match=r"Process [0-9]+ waits for .*blocked by"),
                database_errors("seed"),
                one.transaction(),
            ):
                one.execute(locked.format("notification_history"))
                waiting = threading.Thread(
                    target=other.execute, args=(locked.format("notification_history"),)
                )
                waiting.start()
                one.execute(locked.format("notifications"))
            waiting.join(30)


def test_a_table_that_stays_locked_times_out(
    source: Source, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lock() -> None:
        altering.execute("lock table notification_history")
        clock.ahead = 29.5

    with (
        source.connect() as altering,
        closing(connect(source.dsn, "LOADER_SOURCE_DSN")) as monitor,
        before_the_locks(monkeypatch, lock),
        altering.transaction(),
        pytest.raises(SnapshotBlocked, match="notification_history was still locked after 30 s"),
        snapshot.export(settings(source), [notify()], monitor, print),
    ):
        pass


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


def test_a_truncate_that_waits_for_the_locks_holds_nobody_up(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What asks for the table after it waits behind it, and must not be the seed."""
    lock = snapshot.lock
    found: list[int] = []
    with source.connect() as application:
        truncate = threading.Thread(target=application.execute, args=("truncate notifications",))

        def locked(*arguments: Any) -> None:
            lock(*arguments)
            truncate.start()
            wait_until(lambda: source.ask("select 1 from pg_locks where not granted"))

        monkeypatch.setattr(snapshot, "lock", locked)

        def export() -> None:
            with (
                closing(connect(source.dsn, "LOADER_SOURCE_DSN")) as monitor,
                snapshot.export(settings(source, 30), [notify()], monitor, print) as exported,
            ):
                found.append(exported.position)

        seed = threading.Thread(target=export)
        seed.start()
        seed.join(60)
        source.ask(
            "select pg_cancel_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'"
        )
        truncate.join(60)
    assert found


def test_a_seed_that_waits_for_writers_is_in_nobodys_way(source: Source) -> None:
    """A TRUNCATE by the writer that the snapshot waits for: each would wait for the other."""
    found: list[int] = []

    def export() -> None:
        with (
            closing(connect(source.dsn, "LOADER_SOURCE_DSN")) as monitor,
            snapshot.export(settings(source, 30), [notify()], monitor, print) as exported,
        ):
            found.append(counted(source, exported))

    with source.connect() as writer:
        writer.execute("set lock_timeout = '20s'")
        seed = threading.Thread(target=export)
        with writer.transaction():
            writer.execute("insert into unrelated (note) values ('open')")
            seed.start()
            wait_until(lambda: source.ask("select 1 from pg_replication_slots where temporary"))
            writer.execute("truncate notifications")
        seed.join(60)
    assert found == [0]


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
    with source.connect() as connection:
        connection.execute("create table former (like notifications including defaults)")
        with (
            closing(connect(source.dsn, "LOADER_SOURCE_DSN")) as monitor,
            before_the_locks(monkeypatch, lambda: connection.execute(ddl.encode())),
            snapshot.export(settings(source), [notify()], monitor, messages.append) as exported,
        ):
            assert (
                counted(source, exported) == source.ask("select count(*) from notifications")[0][0]
            )
    assert "public.notifications was truncated, altered or given partitions" in messages[0]


def test_ddl_at_each_try_times_out(
    source: Source, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def truncate() -> None:
        connection.execute("truncate notifications")
        clock.ahead += 15

    with (
        source.connect() as connection,
        closing(connect(source.dsn, "LOADER_SOURCE_DSN")) as monitor,
        before_the_locks(monkeypatch, truncate, 1000),
        pytest.raises(SnapshotBlocked, match=r"notifications was truncated.* at each try for 30 s"),
        snapshot.export(settings(source), [notify()], monitor, print),
    ):
        pass


def test_partitions_that_come_after_the_snapshot_are_in_the_next(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    with source.connect() as connection:
        connection.execute(
            "alter table notifications rename to former;"
            "create table notifications (like former) partition by list (notification_status);"
            "create table leaf partition of notifications for values in ('a');"
            "create table late (like notifications)"
        )
        attach = "alter table notifications attach partition late default"
        with (
            closing(connect(source.dsn, "LOADER_SOURCE_DSN")) as monitor,
            before_the_locks(monkeypatch, lambda: connection.execute(attach)),
            snapshot.export(settings(source), [notify()], monitor, print) as exported,
        ):
            found = [str(leaf.table) for leaf in exported.found[0][1]]
    assert sorted(found) == ["public.late", "public.leaf"]


def counted(source: Source, exported: snapshot.ExportedSnapshot) -> int:
    """Count the notifications that the snapshot shows."""
    with source.connect(autocommit=False) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute(f"set transaction snapshot '{exported.name}'".encode())
        row = reader.execute("select count(*) from notifications").fetchone()
    assert row is not None
    return int(row[0])
