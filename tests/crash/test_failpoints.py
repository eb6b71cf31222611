"""SIGKILL at each failpoint of the loader: nothing is lost and nothing is staged twice."""

from __future__ import annotations

import signal

import pytest

from testkit.databases import Database
from testkit.second_opinion import change_log, other_slot, second_opinion

FAILPOINTS = ("copy-chunk", "before-commit", "after-commit")


def test_small_transactions_are_staged_once(source: Database) -> None:
    other = other_slot(source)
    source.must("setup")
    for failpoint in FAILPOINTS:
        before = source.staged()
        source.insert(1)
        dead = source.loader("run", "--once", WALTALLY_KILL_AT=failpoint)
        assert dead.returncode == -signal.SIGKILL
        assert source.staged() - before == (failpoint == "after-commit")
        for _ in range(20):
            source.insert(1)
        dead = source.loader("run", "--once", WALTALLY_KILL_AT=failpoint)
        assert dead.returncode == -signal.SIGKILL
        source.insert(3)
        source.must("run", "--once")
        assert source.staged() - before == 24
    assert change_log(source) == second_opinion(source, other)


@pytest.mark.slow
def test_a_large_transaction_is_staged_once(source: Database) -> None:
    other = other_slot(source)
    source.must("setup")
    for failpoint in (*FAILPOINTS, "copy-chunk:2"):
        source.insert(20)
        source.must("run", "--once")
        source.insert(5_000)
        source.execute("update notifications set notification_status = 'sent'")
        for _ in range(2):
            dead = source.loader("run", "--once", WALTALLY_KILL_AT=failpoint)
            # The second attempt may have too little left to reach the failpoint.
            assert dead.returncode in (-signal.SIGKILL, 0)
            source.insert(3)
        source.must("run", "--once")
        source.execute("delete from notifications")
    source.must("run", "--once")
    assert change_log(source) == second_opinion(source, other)
