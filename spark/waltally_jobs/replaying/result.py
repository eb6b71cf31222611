"""What a replay found: as rows, for a person and as JSON (docs/archive.md). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waltally import lsn
from waltally.models import Model
from waltally.units import plural
from waltally_jobs.archiving.manifests import Baseline
from waltally_jobs.common.compared import Comparison

JSON_VERSION = 4
"""To be raised when a field of the JSON changes its meaning or is removed."""


@dataclass(frozen=True)
class ReplayedModel:
    """A model at `position`; `totals` are of each measure, as texts.

    `comparison` is that with dbt's model, where it was asked for.
    """

    model: Model
    position: int
    baseline: Baseline
    groups: int
    totals: Mapping[str, str]
    comparison: Comparison | None

    @property
    def difference_count(self) -> int | None:
        """How many values differ; None where nothing was compared."""
        return None if self.comparison is None else self.comparison.difference_count

    def as_json(self) -> dict[str, Any]:
        """Return the model's part of what --json prints."""
        found = self.comparison
        return {
            "position": lsn.show(self.position),
            "baseline_id": self.baseline.baseline_id,
            "snapshot_lsn": lsn.show(self.baseline.snapshot_lsn),
            "groups": self.groups,
            "totals": dict(self.totals),
            "difference_count": self.difference_count,
            "differences": [each.as_json() for each in found.differences] if found else [],
        }

    def lines(self) -> Iterator[str]:
        """Yield what a person reads."""
        if self.comparison is not None:
            yield from map(str, self.comparison.differences)
            count = plural(self.comparison.difference_count, "difference")
            yield f"{count} of {self.model.relation} and the replay"
        totals = ", ".join(f"{name} {number}" for name, number in self.totals.items())
        found = f"{totals} in {plural(self.groups, 'group')}"
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
