"""The loader is killed, or the server sends again: nothing is lost, nothing is staged twice."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from testkit.commands import RunningLoader, short_pauses
from testkit.databases import Database
from testkit.second_opinion import change_log, other_slot, second_opinion
from testkit.servers import Cluster, connect

FAILPOINTS = ("copy-chunk", "before-commit", "after-commit")


def code_of(source: Database, failpoint: str, folder: Path) -> int:
    """The exit code of a loader that dies at a failpoint where it gets there."""
    environment = source.environment(WALTALLY_KILL_AT=failpoint)
    with RunningLoader(environment, folder / "log", "--once", limits=short_pauses()) as running:
        return running.process.wait()


def test_small_transactions_are_staged_once(source: Database, tmp_path: Path) -> None:
    other = other_slot(source)
    source.must("setup")
    for failpoint in FAILPOINTS:
        before = source.staged()
        source.insert(1)
        assert code_of(source, failpoint, tmp_path) == -signal.SIGKILL
        assert source.staged() - before == (failpoint == "after-commit")
        for _ in range(20):
            source.insert(1)
        assert code_of(source, failpoint, tmp_path) == -signal.SIGKILL
        source.insert(3)
        source.must("run", "--once")
        assert source.staged() - before == 24
    assert change_log(source) == second_opinion(source, other)


@pytest.mark.slow
def test_a_large_transaction_is_staged_once(source: Database, tmp_path: Path) -> None:
    other = other_slot(source)
    source.must("setup")
    for failpoint in (*FAILPOINTS, "copy-chunk:2"):
        source.insert(20)
        source.must("run", "--once")
        source.insert(5_000)
        source.execute("update notifications set notification_status = 'sent'")
        for _ in range(2):
            # The second attempt may have too little left to reach the failpoint.
            assert code_of(source, failpoint, tmp_path) in (-signal.SIGKILL, 0)
            source.insert(3)
        source.must("run", "--once")
        source.execute("delete from notifications")
    source.must("run", "--once")
    assert change_log(source) == second_opinion(source, other)


def test_redelivered_transactions_change_nothing() -> None:
    dice = random.Random(8)
    with Cluster({"checkpoint_timeout": "1h", "max_wal_size": "4GB"}) as cluster:
        connect(cluster.dsn()).cursor().execute("create database d")
        database = Database(cluster, "d")
        database.load_notify()
        other = other_slot(database)
        database.must("setup")
        went_back = 0
        for _ in range(3):
            for _ in range(dice.randint(1, 5)):
                database.insert(dice.randint(1, 20))
                database.execute("update notifications set notification_status = 'sent'")
            database.must("run", "--once")
            stored = change_log(database)
            confirmed = "select confirmed_flush_lsn from pg_replication_slots where slot_name = %s"
            before = database.value(confirmed, database.slot)
            cluster.stop("immediate")
            cluster.start()
            database = Database(cluster, "d")
            went_back += database.value(confirmed, database.slot) != before
            database.must("run", "--once")
            assert change_log(database)[: len(stored)] == stored
        assert went_back > 1, "the server delivered something again"
        assert change_log(database) == second_opinion(database, other)
