"""Faults of servers, of their sessions and of the network before them."""

from __future__ import annotations

import signal

from soak.faults.fault import fault
from soak.faults.of_programs import start_build
from soak.programs import kill_group
from soak.system import IS_COMPUTED, Soaked
from testkit.proxy import Proxy
from testkit.servers import Cluster

END_SESSIONS = "select count(pg_terminate_backend(pid)) from pg_stat_activity where "


@fault(5)
def end_walsender(system: Soaked) -> None:
    """End the WAL sender of the slot."""
    system.ask(END_SESSIONS + "pid = %s", system.walsender_pid())


@fault(5)
def end_target_backend(system: Soaked) -> None:
    """End the loader's session on the target."""
    system.ask_target(
        END_SESSIONS + "application_name = 'waltally loader' and backend_type = 'client backend'"
    )


@fault(1)
def end_dbt_backend(system: Soaked) -> None:
    """End all sessions of dbt, also those of the loader's builds."""
    build = start_build(system)
    system.pause_randomly(0, 0.3)
    system.ask_target(END_SESSIONS + "application_name in ('dbt', 'waltally apply')")
    system.wait_at_most(lambda: build.poll() is not None, 60)
    kill_group(build)


@fault(3, blocks_commits=True)
def restart_fast(system: Soaked) -> None:
    """Restart the source as a service manager does."""
    _restart(system, system.cluster, "fast")


@fault(3, blocks_commits=True)
def restart_immediate(system: Soaked) -> None:
    """Crash the source; it recovers."""
    _restart(system, system.cluster, "immediate")


@fault(3, blocks_commits=True)
def crash_target(system: Soaked) -> None:
    """Crash the target, which loses the last seconds of asynchronous commits."""
    if system.has_spark and system.random.random() < 0.5:
        system.wait_at_most(lambda: system.ask_target(IS_COMPUTED), 10)
    _restart(system, system.target_cluster, "immediate")


def _restart(system: Soaked, cluster: Cluster, mode: str) -> None:
    cluster.stop(mode)
    system.pause_randomly(0, 0.5)
    cluster.start()


@fault(6)
def cut(system: Soaked) -> None:
    """Reset the loader's connections to the source, the target, or both."""
    for proxy in _some_proxies(system):
        proxy.cut()


@fault(2)
def blackhole(system: Soaked) -> None:
    """Hold all data for seconds; then pass it on or reset the connections."""
    proxies = _some_proxies(system)
    for proxy in proxies:
        proxy.blackhole()
    system.pause_randomly(1, 5)
    for proxy in proxies:
        if system.random.random() < 0.5:
            proxy.cut()
        proxy.restore()


@fault(2)
def slow_target(system: Soaked) -> None:
    """Slow the target down: a confirmation before the commit would be seen."""
    system.target_proxy.delay(system.random.uniform(0.05, 0.4))
    system.pause_randomly(2, 4)
    if system.random.random() < 0.5:
        system.service.signal(signal.SIGKILL)
    system.target_proxy.restore()


def _some_proxies(system: Soaked) -> list[Proxy]:
    source, target = system.source_proxy, system.target_proxy
    return system.random.choice([[source], [target], [source, target]])
