"""Faults under load, each kind once; `make soak` goes on for as long as one likes."""

from __future__ import annotations

from math import ceil

import pytest

from soak.faults import OF_SPARK, WEIGHTS, Fault
from soak.faults.of_servers import crash_target, cut
from soak.soak import Plan, Soak

BY_SPARK = [*OF_SPARK, cut, crash_target]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "faults"),
    [
        pytest.param(5, [*WEIGHTS], id="the database counts"),
        pytest.param(6, BY_SPARK, id="Spark counts on a cluster"),
        pytest.param(8, BY_SPARK, id="Spark counts over Connect"),
    ],
)
def test_each_kind_of_fault_leaves_facts_and_change_log_exact(
    seed: int, faults: list[Fault]
) -> None:
    weights = dict.fromkeys(faults, 1)
    plan = Plan(seed, fault_count=len(faults), faults_per_check=12, weights=weights)
    soak = Soak(plan)
    soak.run()
    assert set(soak.faults) == {fault.__name__ for fault in faults}
    assert soak.checks == ceil(len(faults) / plan.faults_per_check)
    assert soak.changes > 50 * len(faults)
    assert soak.observations > len(faults)
