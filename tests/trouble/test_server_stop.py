"""A server's stop and start need nobody: it stops under a loader, and a loader waits for it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from testkit.commands import profiles, wait_until
from testkit.databases import Database
from testkit.servers import Cluster, connect


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def database_of_its_own(stack: ExitStack) -> Database:
    cluster = stack.enter_context(Cluster({"fsync": "off"}))
    connect(cluster.dsn()).cursor().execute("create database d")
    database = Database(cluster, "d")
    stack.callback(database.connection.close)
    return database


@pytest.mark.parametrize(
    "target", [pytest.param("the same server", marks=pytest.mark.slow), "another server"]
)
def test_an_idle_loader_does_not_keep_the_server_from_stopping(
    stack: ExitStack, target: str
) -> None:
    source = database_of_its_own(stack)
    source.load_notify()
    elsewhere = {}
    if target == "another server":
        warehouse = database_of_its_own(stack)
        elsewhere["LOADER_TARGET_DSN"] = warehouse.cluster.dsn(warehouse.name)
    source.must("setup", **elsewhere)
    source.insert(5)
    loader = source.start_loader("run", **elsewhere)
    stack.callback(loader.communicate)
    stack.callback(loader.kill)
    confirmed = "select confirmed_flush_lsn >= %s from pg_replication_slots"
    inserted = source.value("select pg_current_wal_lsn()")
    wait_until(lambda: source.value(confirmed, inserted), "the inserts are stored")
    # After a move of the idle position, what the stop itself writes is too little for another.
    reached = source.value("select pg_logical_emit_message(false, 'test', repeat('x', 5000))")
    wait_until(lambda: source.value(confirmed, reached), "the slot follows")
    source.cluster.stop("fast")  # gives up after a minute
    assert "no server running" in source.cluster.run(
        "pg_ctl", "-D", str(source.cluster.data), "status", check=False
    )
    source.cluster.start()
    source = Database(source.cluster, "d")
    stack.callback(source.connection.close)
    active = "select active from pg_replication_slots"
    wait_until(lambda: source.value(active), "the loader follows again by itself")
    loader.send_signal(signal.SIGTERM)
    assert loader.wait(120) == 0


@pytest.mark.slow
def test_a_loader_started_before_its_server_waits_and_then_applies(
    stack: ExitStack, tmp_path: Path
) -> None:
    source = database_of_its_own(stack)
    source.load_notify()
    source.must("setup")
    source.dbt("run", **profiles(tmp_path))
    source.insert(5)
    source.cluster.stop("fast")
    loader = source.start_loader("run", "--build")
    stack.callback(loader.communicate)
    stack.callback(loader.kill)
    assert loader.stderr
    assert "cannot be reached" in loader.stderr.readline()
    source.cluster.start()
    source = Database(source.cluster, "d")
    stack.callback(source.connection.close)
    counted = "select sum(live_count) = 5 from analytics.ft_service_stats"
    wait_until(lambda: source.value(counted), "the rows are counted")
    assert loader.poll() is None
