"""Which cores a program and all that it starts may use: two machines' worth out of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_ALL = sorted(os.sched_getaffinity(0))

HERE = frozenset(_ALL[: len(_ALL) // 2] or _ALL)
"""The first half of the cores; a machine with one has it in both halves."""

ELSEWHERE = frozenset(_ALL[len(_ALL) // 2 :])
"""The other half."""


@contextmanager
def on(cores: frozenset[int]) -> Iterator[None]:
    """Keep this thread, and what it starts inside the block for good, on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
