"""What a loader fails with stands beside the position, and costs next to nothing."""

from __future__ import annotations

import json

from loader.capture.events import BuildBroke, Failed
from loader.monitoring.last_error import LastError
from testkit.databases import Database
from waltally.errors import CannotConnect, SlotInUse
from waltally.settings import DEFAULT_SCHEMA, Settings

MOVED = "select pg_replication_slot_advance(%s, pg_current_wal_lsn())"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def settings(source: Database, **more: str) -> Settings:
    dsn = source.cluster.dsn(source.name, **more)
    return Settings.of(dsn, "", source.slot, DEFAULT_SCHEMA)


def test_a_run_that_is_refused_leaves_its_sentence(source: Database) -> None:
    source.must("setup")
    assert json.loads(source.loader("status", "--json").stdout)["last_error"] is None
    source.insert(3)
    source.execute(MOVED, source.slot)
    assert source.loader("run", "--once").returncode == 22
    body = json.loads(source.loader("status", "--json").stdout)
    assert "beyond the position of record" in body["last_error"]["message"]
    assert 0 <= body["last_error"]["age_seconds"] < 60
    assert source.loader("setup").returncode == 22
    shown = source.loader("status").stdout
    assert "s ago: The slot" in " ".join(shown.split()), "it stays, with its age"
    source.must("setup", "--renew")
    source.insert(1)
    source.must("run", "--once")
    assert json.loads(source.loader("status", "--json").stdout)["last_error"] is None


def test_the_same_failure_is_written_once_a_minute(source: Database) -> None:
    source.must("setup")
    clock = Clock()
    note = LastError(settings(source), clock)

    def row() -> tuple[str, str | None]:
        ((version, text),) = source.execute("select xmin::text, last_error from cdc.slot_position")
        return version, text

    def changes(error: CannotConnect | SlotInUse, at: float) -> bool:
        clock.now = at
        before = row()[0]
        note(Failed(error, retried=True))
        return row()[0] != before

    away = CannotConnect("The source is away")
    assert changes(away, 0)
    assert row()[1] == "The source is away"
    assert not changes(away, 59)
    assert changes(away, 60)
    assert changes(CannotConnect("The target is away"), 61)
    assert not changes(SlotInUse("another one has it"), 200)
    note(BuildBroke(CannotConnect("a build " + "x" * 10_000)))
    assert len(str(row()[1])) == 500


def test_where_nothing_can_be_written_nothing_is_raised(source: Database) -> None:
    error = Failed(CannotConnect("away"), retried=False)
    LastError(settings(source))(error)
    LastError(settings(source, port="1"))(error)
    source.must("setup")
    with source.connection.cursor() as cursor:
        cursor.execute("begin; select * from cdc.slot_position for update")
        LastError(settings(source))(error)
        cursor.execute("rollback")
    assert source.value("select last_error from cdc.slot_position") is None
