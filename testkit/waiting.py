"""Waits on conditions; nothing in a test sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    condition: Callable[[], object],
    claim: str = "it comes true",
    seconds: float = 120.0,
    pause: float = 0.05,
) -> None:
    """Poll until the condition holds; fail with the claim where it does not in time.

    `pause` is the time between two looks, in seconds.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds:g} s: {claim}"
        time.sleep(pause)
