"""What a seed did, for a person and as JSON. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from seeding.known_facts import KnownFact
from seeding.purged import FORGET, Purged
from seeding.store import StoredBaseline
from waltally.facts import Fact
from waltally.plural import plural


@dataclass(frozen=True)
class FactSummary:
    """What is stored of one fact: rows and groups of all its tables, and what became of others."""

    fact: Fact
    stored: StoredBaseline
    purged: Purged
    notes: list[str]
    """For a person, about its purged rows."""

    @property
    def rows(self) -> int:
        """The counted rows."""
        return sum(rows for rows, _ in self.stored.tables.values())

    @property
    def groups(self) -> int:
        """The groups of the parts; one that several parts have counts several times."""
        return sum(groups for _, groups in self.stored.tables.values())

    def as_json(self) -> dict[str, Any]:
        """Return what --json prints of the fact."""
        return {
            "rows": self.rows,
            "groups": self.groups,
            "tables": {
                part.name: {
                    "table": str(part.table),
                    "rows": self.stored.tables[part.name][0],
                    "groups": self.stored.tables[part.name][1],
                    "left_out": self.stored.left_out[part.name],
                }
                for part in self.fact.tables
            },
            "rejections": [asdict(each) for each in self.stored.rejections],
            "purged": asdict(self.purged),
            "notes": self.notes,
        }

    def __str__(self) -> str:
        tables = {part.name: part.table for part in self.fact.tables}
        lines = [f"{self.fact.name}: {plural(self.rows, 'row')} in {plural(self.groups, 'group')}"]
        lines += [
            f"{plural(count, 'row')} of {tables[part]} left out: a dimension is null"
            for part, count in self.stored.left_out.items()
            if count
        ]
        lines += [
            f"{plural(each.row_count, 'row')} of {tables[each.part]} cannot be counted:"
            f" {each.reason}; for instance {json.dumps(each.example, ensure_ascii=False)}"
            for each in self.stored.rejections
        ]
        return "\n  ".join([*lines, *self.notes])


@dataclass(frozen=True)
class Summary:
    """What the seed did."""

    baseline_id: str
    slot: str
    snapshot_lsn: str
    seconds: float
    facts: list[FactSummary]

    def as_json(self) -> dict[str, Any]:
        """Return what --json prints."""
        return {
            "baseline_id": self.baseline_id,
            "slot": self.slot,
            "snapshot_lsn": self.snapshot_lsn,
            "seconds": round(self.seconds, 1),
            "facts": {each.fact.name: each.as_json() for each in self.facts},
        }

    def __str__(self) -> str:
        count = plural(len(self.facts), "fact")
        line = f"{count}, counted at {self.snapshot_lsn} in {self.seconds:.1f} s"
        then = "The next build uses it: `dbt build`, or that of `loader run --build`"
        return "\n".join([line, *map(str, self.facts), then])


def purged_notes(fact: Fact, known: KnownFact | None, purged: Purged) -> list[str]:
    """Return what a person should know of the purged rows."""
    tables = ", ".join(str(part.table) for part in fact.tables if part.deletes == "ignore")
    if purged.outcome == "unknown":
        return [
            f"rows that were purged from {tables} are forgotten; how many is not known, as the fact"
            " was built by another declaration or without a baseline, or rejected changes, or the"
            " change log did not come to where the tables were counted"
        ]
    if not purged.groups:
        return []
    what = f"{plural(purged.rows, 'row')} in " if purged.rows else ""
    found = f"{what}{plural(purged.groups, 'group')} purged from {tables}"
    if purged.outcome == "forgotten":
        return [f"forgotten: {found}"]
    notes = [f"still counted: {found}; {FORGET}"]
    if known is not None and known.position is None:
        notes.append(
            "the change log does not go on from the fact: a row that changed its group since then"
            " is counted in both groups"
        )
    return notes
