"""What cannot be followed is refused, and `loader status` is a contract."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event

from loader import setup, status
from loader.settings import DEFAULT_SCHEMA, DEFAULT_TABLES, Settings
from tests.conftest import connect
from tests.following import end, following
from tests.support import Database


def test_a_slot_moved_by_somebody_else_is_refused_and_renewed(source: Database) -> None:
    source.must("setup")
    source.insert(3)
    source.execute("select pg_replication_slot_advance(%s, pg_current_wal_lsn())", source.slot)
    for command in (("run", "--once"), ("setup",), ("setup", "--check"), ("status",)):
        done = source.loader(*command)
        assert done.returncode == 22, command
    assert "loader setup --renew" in source.loader("run", "--once").stderr
    source.must("setup", "--renew")
    source.insert(2)
    source.must("run", "--once")
    assert source.staged() == 2


def test_a_slot_that_is_gone_is_refused(source: Database) -> None:
    source.must("setup")
    source.execute("select pg_drop_replication_slot(%s)", source.slot)
    assert source.loader("run", "--once").returncode == 21
    assert source.loader("setup").returncode == 21


def test_run_before_setup_says_so(source: Database) -> None:
    done = source.loader("run", "--once")
    assert done.returncode == 20
    assert "loader setup" in done.stderr


def test_a_newer_staging_schema_is_left_alone(source: Database) -> None:
    source.must("setup")
    source.execute("insert into cdc.schema_migration values (9999, 'from the future')")
    for command in (("setup",), ("status",)):
        assert source.loader(*command).returncode == 27


def test_status_is_a_contract(source: Database) -> None:
    assert source.loader("status", "--json").returncode == 20
    source.must("setup")
    source.insert(5)
    source.must("run", "--once")
    body = json.loads(source.must("status", "--json"))
    assert body["version"] == 1
    assert body["healthy"] is True
    assert set(body) == {
        "version", "source", "slot", "position", "models", "thresholds", "problems", "healthy",
    }  # fmt: skip
    assert body["slot"]["name"] == source.slot
    assert body["position"]["lsn"] == source.value("select position_lsn from cdc.slot_position")
    assert "healthy" in source.must("status")


def test_status_is_unhealthy_past_a_threshold(source: Database) -> None:
    source.must("setup")
    source.insert(5000)
    done = source.loader("status", "--json", LOADER_MAX_WAL_HELD_BYTES="1000")
    assert done.returncode == 3
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem["kind"] == "Unhealthy"


def test_a_running_loader_is_never_taken_for_trouble(source: Database) -> None:
    """Slot, record and WAL all move while the status asks for one after the other."""
    source.must("setup")
    settings = Settings.of(
        source.cluster.dsn(source.name), "", source.slot, DEFAULT_TABLES, DEFAULT_SCHEMA
    )
    thresholds = status.Thresholds(300, 2**40)
    stop = Event()

    def write() -> None:
        with closing(connect(source.cluster.dsn(source.name))) as writer:
            cursor = writer.cursor()
            while not stop.is_set():
                cursor.execute("update notifications set reference = 'on and on'")

    source.insert(1)
    with following(source) as process, ThreadPoolExecutor() as pool:
        writing = pool.submit(write)
        try:
            for _ in range(100):
                assert status.report(settings, thresholds)[0]["problems"] == []
                assert setup.check(settings) == []
        finally:
            stop.set()
        writing.result()
        end(process)
