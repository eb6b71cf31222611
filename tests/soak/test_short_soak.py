"""Each kind of fault once under load; `make soak` goes on for as long as one likes."""

from __future__ import annotations

from tests.soak.faults import WEIGHTS
from tests.soak.plan import Plan
from tests.soak.soak import Soak


def test_each_kind_of_fault_leaves_counts_and_change_log_exact() -> None:
    soak = Soak(Plan(seed=5, fault_count=len(WEIGHTS), faults_per_check=12, each_once=True))
    soak.run()
    assert set(soak.faults) == {fault.__name__ for fault in WEIGHTS}
    assert soak.checks == 2
    assert soak.changes > 5000
    assert soak.observations > 100
