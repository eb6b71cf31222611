"""Faults of what applies a fact by Spark: its driver, its executors, and who applies it."""

from __future__ import annotations

from contextlib import suppress

import psutil

from tests.soak.commands import kill_group
from tests.soak.failure import SoakFailed
from tests.soak.faults.servers import IS_COMPUTED
from tests.soak.faults.waiting import wait_at_most
from tests.soak.loader_service import DRIVER_NEEDS_OPERATOR
from tests.soak.system import System, apply_by_spark
from tests.soak.world import BY_SPARK, BY_SPARK_ROLL_UP, MODELS

_START_SECONDS = 30
_END_SECONDS = 240


def kill_driver(system: System) -> None:
    """Kill the driver's Java or its Python, often just before its batch is added or after."""
    if system.random.random() < 0.7:
        wait_at_most(system, lambda: system.ask_target(IS_COMPUTED), _START_SECONDS)
    system.pause_randomly(0, 0.3)
    _kill_one(system, system.driver.processes())


def kill_executor(system: System) -> None:
    """Kill the executor's Java, or a Python of it."""
    wait_at_most(system, system.worker.children, _START_SECONDS)
    system.pause_randomly(0, 1)
    _kill_one(system, system.worker.children(recursive=True))


def second_driver(system: System) -> None:
    """Let another driver apply at once; often kill it. Raises SoakFailed where it does not end."""
    job = system.spawn(*apply_by_spark("local[1]", "--once"))
    try:
        is_killed = system.random.random() < 0.5
        seconds = system.random.uniform(5, 15) if is_killed else _END_SECONDS
        wait_at_most(system, lambda: job.poll() is not None, seconds)
        if job.poll() in DRIVER_NEEDS_OPERATOR or (not is_killed and job.poll() is None):
            raise SoakFailed(f"the second driver ended with exit code {job.poll()}")
    finally:
        kill_group(job)


def change_engine(system: System) -> None:
    """Give the fact to the database and back, as a user does who edits it."""
    models = ("dbt", "run", "--select", BY_SPARK, BY_SPARK_ROLL_UP)
    system.run(*models, "--vars", '{"engine": "database"}')
    system.must_build()
    system.run(*models)
    system.wait_until_applied(*MODELS)


def _kill_one(system: System, processes: list[psutil.Process]) -> None:
    if processes:
        with suppress(psutil.NoSuchProcess):
            system.random.choice(processes).kill()
