"""Waits on conditions; nothing in a test sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def wait_until(
    condition: Callable[[], Found],
    claim: str = "it comes true",
    seconds: float = 120.0,
    pause: float = 0.05,
) -> Found:
    """Poll until the condition holds and return it; fail with the claim where it does not in time.

    `pause` is the time between two looks, in seconds.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not in {seconds:g} s: {claim}"
        time.sleep(pause)
    return found
