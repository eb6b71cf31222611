"""Restricts programs to a half of the cores, as if they ran on two machines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_ALL = sorted(os.sched_getaffinity(0))

SOURCE_CORES = frozenset(_ALL[: len(_ALL) // 2] or _ALL)
"""The first half of the cores; a machine with one has it in both halves."""

LOADER_CORES = frozenset(_ALL[len(_ALL) // 2 :])
"""The other half."""


@contextmanager
def pinned_to(cores: frozenset[int]) -> Iterator[None]:
    """Keep this thread, and what it starts inside the block for good, on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
