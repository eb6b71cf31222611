"""Faults under load, each kind once; `make soak` goes on for as long as one likes."""

from __future__ import annotations

from math import ceil

import pytest

from tests.soak.faults import WEIGHTS, Fault
from tests.soak.faults.network import cut
from tests.soak.faults.processes import kill_dbt, kill_loader, kill_loader_building
from tests.soak.faults.servers import restart_immediate
from tests.soak.faults.sessions import end_target_backend, end_walsender
from tests.soak.plan import Plan
from tests.soak.soak import Soak

QUICK: list[Fault] = [
    kill_loader,
    kill_loader_building,
    kill_dbt,
    end_walsender,
    end_target_backend,
    cut,
    restart_immediate,
]
"""Kills, cut connections and a crash of the server; each takes a second or two."""


def test_kills_and_cuts_leave_counts_and_change_log_exact() -> None:
    must_stay_exact(QUICK)


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
    assert soak.checks == ceil(len(faults) / plan.faults_per_check)
    assert soak.changes > 220 * len(faults)
    assert soak.observations > 5 * len(faults)
