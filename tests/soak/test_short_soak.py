"""Each kind of fault once under load; `make soak` goes on for as long as one likes."""

from __future__ import annotations

from tests.soak.faults import WEIGHTS
from tests.soak.hand import Hand, Plan


def test_each_kind_of_fault_leaves_counts_and_change_log_exact() -> None:
    hand = Hand(Plan(seed=5, faults=len(WEIGHTS), every=12, each_once=True), print)
    hand.run()
    assert set(hand.done) == {fault.__name__ for fault in WEIGHTS}
    assert hand.stops == 2
    assert hand.changes > 5000
    assert hand.observations > 100
