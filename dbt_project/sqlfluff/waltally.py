"""What sqlfluff takes for the macros of this project, which models call as `waltally.name()`."""

from __future__ import annotations

from collections.abc import Callable

QUERIES = ("fact", "roll_up", "current_rows", "read_batch", "compute_deltas")


def __getattr__(name: str) -> Callable[..., str]:
    """Return a macro that gives a word: a name or an expression wherever one may stand."""
    return lambda *values, **named: "select 1 as id" if name in QUERIES else "a"
