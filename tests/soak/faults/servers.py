"""Faults of the servers: restarts, crashes, and work beside the counted tables."""

from __future__ import annotations

from testkit.commands import wait_until
from tests.soak.failure import SoakFailed
from tests.soak.faults.waiting import wait_at_most
from tests.soak.system import System

IS_COMPUTED = "select true from cdc.computed_group limit 1"
"""Whether Spark has written what the database is to add."""


def restart_fast(system: System) -> None:
    """Restart the source as a service manager does."""
    system.cluster.stop("fast")
    system.pause_randomly(0, 0.5)
    system.cluster.start()


def restart_immediate(system: System) -> None:
    """Crash the source; it recovers."""
    system.cluster.stop("immediate")
    system.pause_randomly(0, 0.5)
    system.cluster.start()


def crash_target(system: System) -> None:
    """Crash the target, which loses the last seconds of asynchronous commits."""
    if system.has_spark and system.random.random() < 0.5:
        wait_at_most(system, lambda: system.ask_target(IS_COMPUTED), 10)
    system.target.stop("immediate")
    system.pause_randomly(0, 0.5)
    system.target.start()


def synchronous_standbys(system: System) -> None:
    """Make the source wait for every standby; the loader must not count as one."""
    system.ask("alter system set synchronous_standby_names = '*'")
    system.ask("select pg_reload_conf()")
    not_a_standby = (
        "select count(*) = 0 from pg_stat_replication where sync_state in ('sync', 'quorum')"
    )
    try:
        wait_until(lambda: system.ask(not_a_standby), "the loader is no synchronous standby", 30)
    except AssertionError as error:
        raise SoakFailed(f"{error}:\n{system.loader.last_log_lines()}") from error
    finally:
        system.ask("alter system reset synchronous_standby_names")
        system.ask("select pg_reload_conf()")


def unrelated_rows(system: System) -> None:
    """Write many rows to a table that is not counted: the WAL sender is silent meanwhile."""
    system.ask("insert into unrelated (note) select 'many' from generate_series(1, 400000)")
    system.ask("truncate unrelated")
    system.wait_until_staged()
