"""Faults of the network between the loader and both servers."""

from __future__ import annotations

import signal

from testkit.proxy import Proxy
from tests.soak.system import System


def cut(system: System) -> None:
    """Reset the loader's connections to the source, the target, or both."""
    for proxy in _some_proxies(system):
        proxy.cut()


def blackhole(system: System) -> None:
    """Hold all data for seconds; then pass it on or reset the connections."""
    proxies = _some_proxies(system)
    for proxy in proxies:
        proxy.blackhole()
    system.pause_randomly(1, 5)
    for proxy in proxies:
        if system.random.random() < 0.5:
            proxy.cut()
        proxy.restore()


def slow_target(system: System) -> None:
    """Slow the target down: a confirmation before the commit would be seen."""
    system.target_proxy.delay(system.random.uniform(0.05, 0.4))
    system.pause_randomly(2, 4)
    if system.random.random() < 0.5:
        system.loader.signal(signal.SIGKILL)
    system.target_proxy.restore()


def _some_proxies(system: System) -> list[Proxy]:
    source, target = system.source_proxy, system.target_proxy
    return system.random.choice([[source], [target], [source, target]])
