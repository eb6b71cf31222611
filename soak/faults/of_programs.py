"""Faults of programs: the loader, dbt, Spark and its driver, and what operators run beside them."""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress

import psutil

from soak.faults.fault import fault
from soak.programs import kill_group
from soak.system import IS_COMPUTED, Soaked
from soak.world import BY_SPARK, MODELS

IS_BUILDING = (
    "select true from pg_stat_activity "
    "where application_name in ('dbt', 'waltally apply') and state <> 'idle'"
)


@fault(6)
def kill_loader(system: Soaked) -> None:
    """Kill the loader; the next one runs with or without --build."""
    system.service.kill(*system.random.choice([[], [], ["--build"]]))


@fault(2)
def kill_loader_building(system: Soaked) -> None:
    """Kill the loader while it applies the models."""
    if system.service.arguments != ["--build"]:
        system.service.kill("--build")
    system.wait_at_most(lambda: system.ask_target(IS_BUILDING), 30)
    system.pause_randomly(0, 0.3)
    system.service.kill()


@fault(2)
def freeze_loader(system: Soaked) -> None:
    """Freeze the loader until the server ends its session."""
    pid = system.walsender_pid()
    system.service.signal(signal.SIGSTOP)
    system.wait_at_most(lambda: system.walsender_pid() != pid, system.random.uniform(2, 6))
    system.service.signal(signal.SIGCONT)


@fault(2)
def kill_dbt(system: Soaked) -> None:
    """Kill a `dbt run` during its transactions."""
    build = start_build(system)
    system.pause_randomly(0, 0.5)
    kill_group(build)


@fault(1)
def kill_spark(system: Soaked) -> None:
    """Kill a seed while it starts, reads or writes; sometimes it ends before."""
    seed = system.spawn("spark-submit", "spark/seed.py")
    if system.random.random() < 0.8:
        temporary = "select true from pg_replication_slots where temporary"
        system.wait_at_most(lambda: system.ask(temporary) or seed.poll() is not None, 60)
    _end_after(system, system.random.uniform(0.1, 6), seed)


def start_build(system: Soaked) -> subprocess.Popen[str]:
    """Start a `dbt run`; return it once it works on the server or has ended."""
    options = ["--full-refresh"] if system.random.random() < 0.2 else []
    build = system.spawn("dbt", "run", *options)
    if system.ask_target(IS_BUILDING):
        # The loader's own build is running and hides this one, so any moment will do.
        system.pause_randomly(0, 4)
    else:
        system.wait_at_most(lambda: system.ask_target(IS_BUILDING) or build.poll() is not None, 30)
    return build


_START_SECONDS = 30


@fault(2, of_spark=True)
def kill_driver(system: Soaked) -> None:
    """Kill the driver's Java or its Python, often just before its batch is added or after."""
    if system.random.random() < 0.7:
        system.wait_at_most(lambda: system.ask_target(IS_COMPUTED), _START_SECONDS)
    system.pause_randomly(0, 0.3)
    _kill_one(system, system.driver.processes())


@fault(2, of_spark=True)
def kill_executor(system: Soaked) -> None:
    """Kill the executor's Java, or a Python of it."""
    system.wait_at_most(system.worker.children, _START_SECONDS)
    system.pause_randomly(0, 1)
    _kill_one(system, system.worker.children(recursive=True))


@fault(1, of_spark=True)
def change_engine(system: Soaked) -> None:
    """Give the model to the database and back, as a user does who edits it."""
    models = ("dbt", "run", "--select", *BY_SPARK)
    system.do(*models, "--vars", '{"engine": "database"}')
    system.must_build()
    system.do(*models)
    system.wait_until_applied(*MODELS)


def _end_after(system: Soaked, seconds: float, job: subprocess.Popen[str]) -> int | None:
    """Kill a command after so long; return its exit code, None where it had none by then."""
    system.wait_at_most(lambda: job.poll() is not None, seconds)
    code = job.poll()
    kill_group(job)
    return code


def _kill_one(system: Soaked, processes: list[psutil.Process]) -> None:
    if processes:
        with suppress(psutil.NoSuchProcess):
            system.random.choice(processes).kill()


@fault(3)
def prune(system: Soaked) -> None:
    """Let the log go on in its next partition, and prune those before; often kill the prune."""
    system.ask("select pg_switch_wal()")
    seconds = system.random.choice([system.random.uniform(0.5, 3), 30])
    job = system.spawn("loader", "prune", "--keep", "0s", "--timeout", "5")
    _end_after(system, seconds, job)
