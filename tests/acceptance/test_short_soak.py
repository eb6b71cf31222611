"""Faults under load, each kind once; `make soak` goes on for as long as one likes."""

from __future__ import annotations

from math import ceil

import pytest

from soak.faults import OF_SPARK, WEIGHTS, Fault
from soak.faults.of_programs import kill_loader_building
from soak.faults.of_servers import crash_target, cut, restart_immediate
from soak.soak import Plan, Soak

QUICK: list[Fault] = [kill_loader_building, cut, restart_immediate]
"""A kill, cut connections and a crash of the server; each takes a second or two."""


def test_kills_and_cuts_leave_counts_and_change_log_exact() -> None:
    must_stay_exact(QUICK)


@pytest.mark.slow
def test_each_kind_of_fault_leaves_counts_and_change_log_exact() -> None:
    must_stay_exact(list(WEIGHTS))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [pytest.param(6, id="cluster"), pytest.param(8, id="connect")])
def test_each_kind_of_fault_of_spark_leaves_its_fact_exact(seed: int) -> None:
    must_stay_exact([*OF_SPARK, cut, crash_target], seed)


def must_stay_exact(faults: list[Fault], seed: int = 5) -> None:
    weights = dict.fromkeys(faults, 1)
    plan = Plan(seed, fault_count=len(faults), faults_per_check=12, weights=weights)
    soak = Soak(plan)
    soak.run()
    assert set(soak.faults) == {fault.__name__ for fault in faults}
    assert soak.checks == ceil(len(faults) / plan.faults_per_check)
    assert soak.changes > 50 * len(faults)
    assert soak.observations > len(faults)
