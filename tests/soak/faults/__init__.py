"""The kinds of fault, and how often each one occurs.

A fault returns when it is over; recovery may still be under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from tests.soak.faults.maintenance import (
    archive,
    prune,
    rename_away,
)
from tests.soak.faults.network import (
    blackhole,
    cut,
    slow_target,
)
from tests.soak.faults.processes import (
    freeze_loader,
    kill_dbt,
    kill_loader,
    kill_loader_building,
    kill_second_loader,
    kill_spark,
    replace_loader,
)
from tests.soak.faults.readers import constrain, lock_exclusively, lock_shared
from tests.soak.faults.schema import harmless_ddl, silent_ddl
from tests.soak.faults.servers import (
    crash_target,
    restart_fast,
    restart_immediate,
    synchronous_standbys,
    unrelated_rows,
)
from tests.soak.faults.sessions import (
    end_dbt_backend,
    end_target_backend,
    end_walsender,
    role_setting,
)
from tests.soak.faults.spark import change_engine, kill_driver, kill_executor, second_driver
from tests.soak.system import System

Fault = Callable[[System], None]


def nothing(system: System) -> None:
    """Do nothing for a while."""
    system.pause_randomly(0.5, 2)


WEIGHTS: dict[Fault, int] = {
    kill_loader: 6,
    kill_loader_building: 2,
    kill_dbt: 2,
    end_dbt_backend: 1,
    kill_spark: 1,
    end_walsender: 5,
    end_target_backend: 5,
    restart_fast: 3,
    restart_immediate: 3,
    freeze_loader: 2,
    replace_loader: 1,
    cut: 6,
    blackhole: 2,
    slow_target: 2,
    nothing: 1,
    role_setting: 5,
    kill_second_loader: 2,
    unrelated_rows: 1,
    synchronous_standbys: 2,
    crash_target: 3,
    prune: 3,
    archive: 1,
    rename_away: 1,
    harmless_ddl: 4,
    silent_ddl: 1,
    constrain: 2,
    lock_shared: 2,
    lock_exclusively: 2,
}

OF_SPARK: dict[Fault, int] = {
    kill_driver: 2,
    kill_executor: 2,
    second_driver: 1,
    change_engine: 1,
}
"""For the system whose fact Spark applies."""

BLOCKS_COMMITS = frozenset({restart_fast, restart_immediate, crash_target, synchronous_standbys})
"""Faults that block the application's commits by themselves. Those commits are not timed."""


def one_round(random: Random, weights: Mapping[Fault, int]) -> list[Fault]:
    """Return each kind of fault as often as its weight, in random order."""
    faults = [fault for fault, weight in weights.items() for _ in range(weight)]
    random.shuffle(faults)
    return faults
