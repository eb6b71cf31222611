"""Failpoints: places where a test kills the process, and nothing may be lost or doubled."""

from __future__ import annotations

import os
import signal

_name, _, _times = os.environ.get("WALTALLY_KILL_AT", "").partition(":")
_left = int(_times or 1)


def reach(name: str) -> None:
    """Die by SIGKILL if WALTALLY_KILL_AT is this name; with `name:n`, at the n-th call."""
    global _left
    if name == _name:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
