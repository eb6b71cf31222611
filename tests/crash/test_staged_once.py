"""The loader is killed, or the server sends again: nothing is lost, nothing is staged twice."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from testkit.commands import RunningLoader, short_pauses
from testkit.databases import Database, application_database
from testkit.second_opinion import change_log, other_slot, second_opinion
from testkit.servers import Server

FAILPOINTS = ("copy-chunk", "before-commit", "after-commit")


def code_of(source: Database, failpoint: str, folder: Path) -> int:
    """The exit code of a loader that dies at a failpoint where it gets there."""
    environment = source.environment(WALTALLY_KILL_AT=failpoint)
    with RunningLoader(environment, folder / "log", "--once", limits=short_pauses()) as running:
        return running.process.wait()


@pytest.mark.parametrize("rows", [1, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_transaction_is_staged_once_wherever_the_loader_is_killed(
    source: Database, tmp_path: Path, rows: int
) -> None:
    other = other_slot(source)
    source.must("setup")
    for failpoint in (*FAILPOINTS, *(["copy-chunk:2"] if rows > 1 else [])):
        before = source.staged()
        source.insert(rows)
        assert code_of(source, failpoint, tmp_path) == -signal.SIGKILL
        assert source.staged() - before == (rows if failpoint == "after-commit" else 0)
        for _ in range(20):
            source.insert(1)
        assert code_of(source, failpoint, tmp_path) == -signal.SIGKILL
        source.insert(3)
        source.must("run", "--once")
        assert source.staged() - before == rows + 23
    assert change_log(source) == second_opinion(source, other)


def test_redelivered_transactions_change_nothing() -> None:
    dice, often = random.Random(8), {"checkpoint_timeout": "1h", "max_wal_size": "4GB"}
    confirmed = "select confirmed_flush_lsn from pg_replication_slots where slot_name = %s"
    with Server(often) as cluster:
        database = application_database(cluster, "d")
        other = other_slot(database)
        database.must("setup")
        went_back = 0
        for _ in range(3):
            for _ in range(dice.randint(1, 5)):
                database.insert(dice.randint(1, 20))
                database.execute("update notifications set notification_status = 'sent'")
            database.must("run", "--once")
            stored = change_log(database)
            before = database.value(confirmed, database.slot)
            cluster.stop("immediate")
            cluster.start()
            database = database.reconnect()
            went_back += database.value(confirmed, database.slot) != before
            database.must("run", "--once")
            assert change_log(database)[: len(stored)] == stored
        assert went_back > 1, "the server delivered something again"
        assert change_log(database) == second_opinion(database, other)
