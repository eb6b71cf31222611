"""A wait that ends without an error when its time is over."""

from __future__ import annotations

from collections.abc import Callable

from testkit.commands import wait_until
from tests.soak.failure import SoakFailed
from tests.soak.system import System


def wait_at_most(system: System, condition: Callable[[], object], seconds: float) -> None:
    """Wait for the condition or for so long: a fault at another moment is useful too."""
    try:
        wait_until(condition, "", seconds)
    except SoakFailed:
        raise
    except AssertionError:
        system.check_services()
