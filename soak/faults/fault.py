"""The kinds of fault. A fault returns when it is over; recovery may still be under way."""

from __future__ import annotations

from collections.abc import Callable

from soak.system import Soaked

Fault = Callable[[Soaked], None]

WEIGHTS: dict[Fault, int] = {}
"""How often each kind occurs in a round."""

OF_SPARK: dict[Fault, int] = {}
"""The same of those that need the system whose model Spark applies."""

BLOCKS_COMMITS: set[Fault] = set()
"""Faults that block the application's commits by themselves. Those commits are not timed."""


def fault(
    weight: int, *, of_spark: bool = False, blocks_commits: bool = False
) -> Callable[[Fault], Fault]:
    """Let a function be a kind of fault."""

    def register(kind: Fault) -> Fault:
        (OF_SPARK if of_spark else WEIGHTS)[kind] = weight
        if blocks_commits:
            BLOCKS_COMMITS.add(kind)
        return kind

    return register
