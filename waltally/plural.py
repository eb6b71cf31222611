"""Numbers of things, as a person reads them."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """Return the count with its noun: `1 change`, `2,000 changes`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
