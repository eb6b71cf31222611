"""Faults that kill or freeze the loader, dbt or Spark."""

from __future__ import annotations

import signal
import subprocess

from testkit.commands import LOADER, ROOT
from tests.soak.commands import kill_group
from tests.soak.failure import SoakFailed
from tests.soak.faults.waiting import wait_at_most
from tests.soak.system import System

IS_BUILDING = (
    "select true from pg_stat_activity "
    "where application_name in ('dbt', 'waltally apply') and state <> 'idle'"
)


def kill_loader(system: System) -> None:
    """Kill the loader; the next one runs with or without --build."""
    system.loader.arguments = system.random.choice([[], [], ["--build"]])
    system.loader.signal(signal.SIGKILL)


def kill_second_loader(system: System) -> None:
    """Kill the loader of the second slot; the first one must go on."""
    system.second_loader.signal(signal.SIGKILL)


def kill_loader_building(system: System) -> None:
    """Kill the loader while it applies the models."""
    if system.loader.arguments != ["--build"]:
        system.loader.arguments = ["--build"]
        system.loader.signal(signal.SIGKILL)
    wait_at_most(system, lambda: system.ask_target(IS_BUILDING), 30)
    system.pause_randomly(0, 0.3)
    system.loader.arguments = []
    system.loader.signal(signal.SIGKILL)


def freeze_loader(system: System) -> None:
    """Freeze the loader until the server ends its session."""
    pid = system.walsender_pid()
    system.loader.signal(signal.SIGSTOP)
    wait_at_most(system, lambda: system.walsender_pid() != pid, system.random.uniform(2, 6))
    system.loader.signal(signal.SIGCONT)


def replace_loader(system: System) -> None:
    """Freeze the loader, let another one take the slot, and wake the first one up."""
    pid = system.walsender_pid()
    system.loader.signal(signal.SIGSTOP)
    wait_at_most(system, lambda: system.walsender_pid() != pid, 10)
    with (system.home / "other loader.log").open("ab") as output:
        other = subprocess.Popen(
            [str(LOADER), "run"],
            env=system.environment,
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_at_most(system, lambda: system.walsender_pid() not in (None, pid), 20)
        system.pause_randomly(0, 0.5)
        system.loader.signal(signal.SIGCONT)
        system.pause_randomly(0.5, 1.5)
        if other.poll() is not None:
            raise SoakFailed(f"the other loader ended with exit code {other.returncode}")
    finally:
        system.loader.signal(signal.SIGCONT)
        other.kill()
        other.wait()


def kill_dbt(system: System) -> None:
    """Kill a `dbt run` during its transactions."""
    build = start_build(system)
    system.pause_randomly(0, 0.5)
    kill_group(build)


def kill_spark(system: System) -> None:
    """Kill a seed while it starts, reads or writes; sometimes it ends before."""
    seed = system.spawn("spark-submit", "spark/seed.py")
    try:
        if system.random.random() < 0.8:
            temporary = "select true from pg_replication_slots where temporary"
            wait_at_most(system, lambda: system.ask(temporary) or seed.poll() is not None, 60)
        wait_at_most(system, lambda: seed.poll() is not None, system.random.uniform(0.1, 6))
    finally:
        kill_group(seed)


def start_build(system: System) -> subprocess.Popen[bytes]:
    """Start a `dbt run`; return it once it works on the server or has ended."""
    options = ["--full-refresh"] if system.random.random() < 0.2 else []
    build = system.spawn("dbt", "run", *options)
    if system.ask_target(IS_BUILDING):
        # The loader's own build is running and hides this one, so any moment will do.
        system.pause_randomly(0, 4)
    else:
        wait_at_most(system, lambda: system.ask_target(IS_BUILDING) or build.poll() is not None, 30)
    return build
