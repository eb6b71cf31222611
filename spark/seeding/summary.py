"""What a seed did, for a person and as JSON. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from seeding.known_facts import KnownFact
from seeding.purged import FORGET, Purged
from seeding.store import StoredBaseline
from waltally.facts import Fact


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
        lines = [f"{self.fact.name}: {self.rows:,} rows in {self.groups:,} groups"]
        lines += [
            f"{count:,} rows of {tables[part]} are left out: a dimension is null"
            for part, count in self.stored.left_out.items()
            if count
        ]
        lines += [
            f"{each.row_count:,} rows of {tables[each.part]} cannot be counted: {each.reason};"
            f" for instance {json.dumps(each.example, ensure_ascii=False)}"
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
        first = f"{len(self.facts)} facts" if len(self.facts) > 1 else "1 fact"
        line = f"{first}, counted at {self.snapshot_lsn} in {self.seconds:.1f} s"
        return "\n".join([line, *map(str, self.facts)])


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
    what = f"{purged.rows:,} rows in " if purged.rows else ""
    found = f"{what}{purged.groups:,} groups, which were purged from {tables},"
    if purged.outcome == "forgotten":
        return [f"{found} are forgotten"]
    notes = [f"{found} stay counted; {FORGET}"]
    if known is not None and known.position is None:
        notes.append(
            "the change log does not go on from the fact: a row that changed its group since then"
            " is counted in both groups"
        )
    return notes
