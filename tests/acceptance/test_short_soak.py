"""Faults under load; `make soak` goes on for as long as one likes."""

from __future__ import annotations

from math import ceil

import pytest

from soak.faults import OF_SPARK, WEIGHTS, Fault
from soak.faults.of_programs import kill_loader_building
from soak.faults.of_servers import crash_target, cut, restart_immediate
from soak.soak import Soak

BY_SPARK = [*OF_SPARK, cut, crash_target]


@pytest.mark.parametrize(
    ("seed", "faults"),
    [
        pytest.param(5, [kill_loader_building, restart_immediate], id="a few"),
        pytest.param(5, [*WEIGHTS], id="the database counts", marks=pytest.mark.slow),
        pytest.param(6, BY_SPARK, id="Spark counts", marks=pytest.mark.slow),
    ],
)
def test_faults_leave_models_and_change_log_exact(seed: int, faults: list[Fault]) -> None:
    weights = dict.fromkeys(faults, 1)
    soak = Soak(seed, fault_count=len(faults), faults_per_check=12, weights=weights)
    soak.run()
    assert set(soak.faults) == {fault.__name__ for fault in faults}
    done = soak.summary()
    assert done["checks"] == ceil(len(faults) / soak.faults_per_check)
    assert done["changes_compared"] > 50 * len(faults)
    assert done["positions_observed"] > len(faults)
