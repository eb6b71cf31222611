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
from waltally_jobs.seeding.archived import FORGET, Purged
from waltally_jobs.seeding.store import StoredBaseline


@dataclass(frozen=True)
class ModelSummary:
    """What is stored of one model: rows and groups of all its tables, and its state then."""

    model: Model
    stored: StoredBaseline
    state: ModelState

    @property
    def notes(self) -> list[str]:
        """What a person should know of its purged rows."""
        return purged_notes(self.model, self.stored.purged)

    @property
    def rows(self) -> int:
        """The counted rows."""
        return sum(rows for rows, _ in self.stored.tables.values())

    @property
    def groups(self) -> int:
        """The groups of the parts; one that several parts have counts several times."""
        return sum(groups for _, groups in self.stored.tables.values())

    def as_json(self) -> dict[str, Any]:
        """Return what --json prints of the model."""
        return {
            "rows": self.rows,
            "groups": self.groups,
            "tables": {
                part.name: {
                    "table": str(part.table),
                    "rows": self.stored.tables[part.name][0],
                    "groups": self.stored.tables[part.name][1],
                }
                for part in self.model.tables
            },
            "rejections": [asdict(each) for each in self.stored.rejections],
            "purged": {
                "outcome": self.stored.purged.outcome,
                "rows": self.stored.purged.rows,
                "groups": self.stored.purged.groups,
            },
            "notes": self.notes,
        }

    def lines(self) -> Iterator[str]:
        """Yield what a person reads."""
        tables = {part.name: part.table for part in self.model.tables}
        yield f"{self.model.name}: {plural(self.rows, 'row')} in {plural(self.groups, 'group')}"
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


def purged_notes(model: Model, purged: Purged) -> list[str]:
    """Return what a person should know of the purged rows."""
    tables = ", ".join(str(part.table) for part in model.tables if part.ignores_deletes)
    if purged.outcome == "first":
        return [
            f"rows that were deleted from {tables} before this baseline are not added: no baseline"
            " of this declaration had counted them"
        ]
    notes = []
    if purged.groups:
        what = f"{plural(purged.rows, 'row')} in " if purged.rows else ""
        found = f"{what}{plural(purged.groups, 'group')} purged from {tables}"
        is_kept = purged.outcome == "kept"
        notes.append(f"still counted: {found}; {FORGET}" if is_kept else f"forgotten: {found}")
    if purged.gap_lsn is not None:
        notes.append(
            f"the change log does not go on from {lsn.show(purged.gap_lsn)}, where the model was:"
            f" rows that were purged from {tables} between there and the log are not counted"
        )
    return notes
