"""Each kind of fault once under load; `make soak` goes on for as long as one likes."""

from __future__ import annotations

import pytest

from tests.soak.faults import WEIGHTS, Fault
from tests.soak.faults.maintenance import archive, rename_away
from tests.soak.faults.processes import kill_spark
from tests.soak.plan import Plan
from tests.soak.soak import Soak

STARTS_SPARK = {archive, rename_away, kill_spark}


def test_each_quick_kind_of_fault_leaves_counts_and_change_log_exact() -> None:
    must_stay_exact([fault for fault in WEIGHTS if fault not in STARTS_SPARK])


@pytest.mark.slow
def test_each_kind_of_fault_leaves_counts_and_change_log_exact() -> None:
    must_stay_exact(list(WEIGHTS))


def must_stay_exact(faults: list[Fault]) -> None:
    plan = Plan(
        seed=5, fault_count=len(faults), faults_per_check=12, weights=dict.fromkeys(faults, 1)
    )
    soak = Soak(plan)
    soak.run()
    assert set(soak.faults) == {fault.__name__ for fault in faults}
    assert soak.checks == 2
    assert soak.changes > 5000
    assert soak.observations > 100
