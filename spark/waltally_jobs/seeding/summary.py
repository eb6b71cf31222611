"""What a seed did, for a person and as JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from loader.staging.records import ModelState, say_states
from waltally import lsn
from waltally.models import Model
from waltally.units import plural
from waltally_jobs.seeding.ignored_deletes import FORGET
from waltally_jobs.seeding.store import StoredBaseline


@dataclass(frozen=True)
class ModelSummary:
    """What is stored of one model, and its state then."""

    model: Model
    stored: StoredBaseline
    state: ModelState

    @property
    def notes(self) -> list[str]:
        """What a person should know of its ignored deletes."""
        ignored = self.stored.ignored
        tables = ", ".join(str(part.table) for part in self.model.tables if part.ignores_deletes)
        notes = []
        if ignored.groups:
            notes.append(
                f"still counted: {plural(ignored.rows, 'row')} in"
                f" {plural(ignored.groups, 'group')} purged from {tables}; {FORGET}"
            )
        if ignored.gap_lsn is not None:
            notes.append(
                f"the change log does not go on from {lsn.show(ignored.gap_lsn)}, where the model"
                f" was: rows that were purged from {tables} between there and the log are not"
                " counted"
            )
        return notes

    def as_json(self) -> dict[str, Any]:
        """Return what --json prints of the model."""
        return {
            "rows": self.stored.rows,
            "groups": self.stored.groups,
            "rejections": [asdict(each) for each in self.stored.rejections],
            "notes": self.notes,
        }

    def lines(self) -> Iterator[str]:
        """Yield what a person reads."""
        tables = {part.name: part.table for part in self.model.tables}
        counted = f"{plural(self.stored.rows, 'row')} in {plural(self.stored.groups, 'group')}"
        yield f"{self.model.name}: {counted}"
        for each in self.stored.rejections:
            yield (
                f"  {plural(each.row_count, 'row')} of {tables[each.part]} cannot be counted:"
                f" {each.reason}; for instance {json.dumps(each.example, ensure_ascii=False)}"
            )
        yield from (f"  {note}" for note in self.notes)


@dataclass(frozen=True)
class Summary:
    """What the seed did."""

    baseline_id: str
    slot: str
    snapshot_lsn: str
    seconds: float
    models: list[ModelSummary]

    def as_json(self) -> dict[str, Any]:
        """Return what --json prints."""
        return {
            "baseline_id": self.baseline_id,
            "slot": self.slot,
            "snapshot_lsn": self.snapshot_lsn,
            "seconds": round(self.seconds, 1),
            "models": {each.model.name: each.as_json() for each in self.models},
        }

    def lines(self) -> Iterator[str]:
        """Yield what a person reads."""
        count = plural(len(self.models), "model")
        yield f"{count}, counted at {self.snapshot_lsn} in {self.seconds:.1f} s"
        for each in self.models:
            yield from each.lines()
        for _, clause, remedy in say_states(each.state for each in self.models):
            yield f"{clause}; {remedy}" if remedy else clause
