"""Numbers of a model beside the right ones, as the audit tells them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

EXACT = Context(prec=150_000, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Rounds no number that a database has: 131,072 digits before the point and 16,383 after it."""


@dataclass(frozen=True)
class Compared:
    """A measure in the model and the right one, as number texts.

    None: there is no such group, or it has no value to add up.
    """

    measure: str
    model: str | None
    counted: str | None

    @property
    def difference(self) -> str:
        """How much too large the model's is; negative where it is too small."""
        exact = f"{EXACT.subtract(Decimal(self.model or 0), Decimal(self.counted or 0)):f}"
        return exact.rstrip("0").rstrip(".") if "." in exact else exact

    def as_json(self) -> dict[str, Any]:
        """Return what --json prints of it."""
        return {**asdict(self), "difference": self.difference}

    def __str__(self) -> str:
        sign = "" if self.difference.startswith("-") else "+"
        return (
            f"{self.measure} is {shown(self.model)}, counted {shown(self.counted)}, difference"
            f" {sign}{shown(self.difference)}"
        )


@dataclass(frozen=True)
class Difference(Compared):
    """A wrong value of a group."""

    dimensions: Mapping[str, str | None]

    def __str__(self) -> str:
        group = ", ".join(f"{name} {text or 'null'}" for name, text in self.dimensions.items())
        return f"{group}: {super().__str__()}"


@dataclass(frozen=True)
class Comparison:
    """The model against the counts: the largest `differences`, and `difference_count` of all.

    `totals` are of each measure over all groups.
    """

    group_count: int
    totals: Sequence[Compared]
    difference_count: int
    differences: Sequence[Difference]


@dataclass(frozen=True)
class Rejected:
    """How many changes could not be counted, and the position of the first one."""

    count: int
    first_lsn: int | None


def shown(number: str | None) -> str:
    """Return a number for people."""
    return "null" if number is None else f"{Decimal(number):,f}"
