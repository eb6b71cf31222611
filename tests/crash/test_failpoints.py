"""SIGKILL at each failpoint of the loader: nothing is lost and nothing is staged twice."""

from __future__ import annotations

import signal

import pytest

from testkit.databases import Database
from testkit.second_opinion import change_log, other_slot, second_opinion

FAILPOINTS = ["copy-chunk", "copy-chunk:2", "before-commit", "after-commit"]


@pytest.mark.parametrize(
    "failpoint",
    [pytest.param(each, marks=pytest.mark.slow) if ":" in each else each for each in FAILPOINTS],
)
def test_small_transactions_are_staged_once(source: Database, failpoint: str) -> None:
    other = other_slot(source)
    source.must("setup")
    source.insert(1)
    dead = source.loader("run", "--once", WALTALLY_KILL_AT=failpoint)
    assert dead.returncode == -signal.SIGKILL
    assert source.staged() == (1 if failpoint == "after-commit" else 0)
    for _ in range(20):
        source.insert(1)
    dead = source.loader("run", "--once", WALTALLY_KILL_AT=failpoint)
    assert dead.returncode == -signal.SIGKILL
    source.insert(3)
    source.must("run", "--once")
    assert source.staged() == 24
    assert change_log(source) == second_opinion(source, other)


@pytest.mark.slow
@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_a_large_transaction_is_staged_once(source: Database, failpoint: str) -> None:
    other = other_slot(source)
    source.must("setup")
    source.insert(20)
    source.must("run", "--once")
    source.insert(20_000)
    source.execute("update notifications set notification_status = 'sent'")
    for _ in range(2):
        dead = source.loader("run", "--once", WALTALLY_KILL_AT=failpoint)
        # The second attempt may have too little left to reach the failpoint.
        assert dead.returncode in (-signal.SIGKILL, 0)
        source.insert(3)
    source.must("run", "--once")
    assert change_log(source) == second_opinion(source, other)
