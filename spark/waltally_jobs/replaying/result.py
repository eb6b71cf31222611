"""What a replay found: as rows, for a person and as JSON (docs/archive.md). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from waltally import lsn
from waltally.models import Model
from waltally.units import plural
from waltally_jobs.archiving.manifests import Baseline

JSON_VERSION = 3
"""To be raised when a field of the JSON changes its meaning or is removed."""


@dataclass(frozen=True)
class Difference:
    """A group that the model and the replay have with other numbers, by measure as texts."""

    dimensions: Mapping[str, str | None]
    model: Mapping[str, str]
    replay: Mapping[str, str]

    def __str__(self) -> str:
        group = ", ".join(f"{name} {value}" for name, value in self.dimensions.items())
        wrong = ", ".join(
            f"{name} {number} and not {self.replay[name]}"
            for name, number in self.model.items()
            if number != self.replay[name]
        )
        return f"{group}: the model has {wrong}"


@dataclass(frozen=True)
class ReplayedModel:
    """A model at `position`; `totals` are of each measure, as texts.

    Where dbt's model was compared, `difference_count` is how many groups differ, else None.
    """

    model: Model
    position: int
    baseline: Baseline | None
    groups: int
    totals: Mapping[str, str]
    difference_count: int | None
    differences: Sequence[Difference]

    def as_json(self) -> dict[str, Any]:
        """Return the model's part of what --json prints."""
        found = self.baseline
        return {
            "position": lsn.show(self.position),
            "baseline_id": found and found.baseline_id,
            "snapshot_lsn": found and lsn.show(found.snapshot_lsn),
            "groups": self.groups,
            "totals": dict(self.totals),
            "difference_count": self.difference_count,
            "differences": [each.__dict__ for each in self.differences],
        }

    def lines(self) -> Iterator[str]:
        """Yield what a person reads."""
        yield from map(str, self.differences)
        if self.difference_count is not None:
            differ = "differs" if self.difference_count == 1 else "differ"
            yield f"{plural(self.difference_count, 'group')} {differ} from {self.model.relation}"
        totals = ", ".join(f"{name} {number}" for name, number in self.totals.items())
        found = (
            f"{totals} in {plural(self.groups, 'group')}" if totals else plural(self.groups, "row")
        )
        yield f"{self.model.name}: {found} as of {lsn.show(self.position)}"


@dataclass(frozen=True)
class Replay:
    """The models that were computed."""

    slot: str
    models: Sequence[ReplayedModel]
    seconds: float

    @property
    def differing(self) -> list[ReplayedModel]:
        """The models that differ from what dbt has built."""
        return [each for each in self.models if each.difference_count]

    def as_json(self) -> dict[str, Any]:
        """Return what --json prints: a contract."""
        return {
            "version": JSON_VERSION,
            "slot": self.slot,
            "models": {each.model.name: each.as_json() for each in self.models},
            "seconds": round(self.seconds, 1),
        }

    def lines(self) -> Iterator[str]:
        """Yield what a person reads."""
        for each in self.models:
            yield from each.lines()
        yield f"{self.seconds:.1f} s"


def arrow_type(type_: str) -> pa.DataType:
    """Return Arrow's type of a measure: a numeric has more digits than its decimals."""
    return pa.int64() if type_ == "bigint" else pa.string()
