"""What the changes of an interval do to facts, as tables that the tasks make which read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as compute
from rules import messages
from rules.judging import Group
from rules.tallies import Counting, Position, Rejected, Sums, Tally, add_sums
from waltally_jobs.common import sums
from waltally_jobs.common.arrow import Task
from waltally_jobs.common.buckets import by_bucket, payload
from waltally_jobs.common.gathering import Gathered
from waltally_jobs.common.log_rows import rows_of

from deltas import current_rows
from deltas.current_rows import RowCounting
from waltally.facts import Fact
from waltally.tables import Table


def task_of(
    facts: Sequence[Fact], slot: str, truncates: Mapping[Table, Position], buckets: int
) -> Task:
    """Return the task that makes tables of changes, for `Later` to read."""
    counted = [(place, each) for place, each in enumerate(facts) if each.kind == "fact"]
    kept = [(place, each) for place, each in enumerate(facts) if each.kind == "current_rows"]

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counting = Counting([fact for _, fact in counted], slot, truncates)
        rows = [(place, fact, RowCounting(fact, slot, truncates)) for place, fact in kept]
        for batch in batches:
            if counted:
                counting.count(rows_of(batch))
            for place, _, judging in rows:
                yield payload(f"{place} events", 0, judging.events(rows_of(batch)))
        for (place, fact), tally in zip(counted, counting.finish(), strict=True):
            yield from _tables(place, fact, tally, buckets)
        for place, fact, judging in rows:
            first = min(judging.rejected, default=(None, None))
            left_out = {fact.tables[0].name: judging.left_out}
            yield _note(place, [len(judging.rejected), *first], left_out)

    return make


def _tables(place: int, fact: Fact, tally: Tally, buckets: int) -> Iterator[pa.RecordBatch]:
    archived: dict[tuple[str, Group], Sums] = {}
    for (part, group, _), adds in tally.archived.items():
        add_sums(archived, (part, group), adds)
    for what, found in (("deltas", tally.groups), ("archived", archived)):
        for name in dict.fromkeys(part for part, _ in found):
            own = {group: adds for (part, group), adds in found.items() if part == name}
            yield from by_bucket(f"{place} {what} {name}", sums.groups_of(own, fact), buckets)
    # Every delete counts, also where the fact ignores it.
    left_out = {
        part: tally.left_out.get(part, 0) + tally.purged.get(part, 0)
        for part in tally.left_out.keys() | tally.purged.keys()
    }
    yield _note(place, [tally.rejected_count, *(tally.first_rejected or (None, None))], left_out)


def _note(place: int, rejected: Sequence[Any], left_out: Mapping[str, int]) -> pa.RecordBatch:
    text = json.dumps({"rejected": rejected, "left_out": left_out})
    return payload(f"{place} note", 0, pa.table({"note": [text]}))


def find_truncates(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make tables of the changes that empty a table, for `truncates_of` to read."""
    for batch in batches:
        action = batch.column("action")
        is_candidate = compute.or_kleene(compute.is_null(action), compute.equal(action, "T"))
        found = []
        for at, ordinal, _, message in rows_of(batch.filter(is_candidate)):
            if (table := messages.truncated_table(message)) is not None:
                found.append((table.schema, table.name, at, ordinal))
        if found:
            columns = zip(*found, strict=True)
            names = ("schema", "name", "at", "ordinal")
            yield payload("truncates", 0, pa.table(dict(zip(names, columns, strict=True))))


def truncates_of(gathered: Gathered) -> dict[Table, Position]:
    """Return where each table was last emptied, from what `find_truncates` has made."""
    last: dict[Table, Position] = {}
    for found in gathered.tables("truncates", 0):
        for schema, name, at, ordinal in zip(*found.to_pydict().values(), strict=True):
            table = Table(schema, name)
            last[table] = max(last.get(table, (at, ordinal)), (at, ordinal))
    return last


@dataclass(frozen=True)
class Later:
    """What the changes after a fact's position do to it; `place` is the fact's in `task_of`."""

    fact: Fact
    slot: str
    place: int
    gathered: Gathered
    truncates: Mapping[Table, Position]

    @property
    def truncated(self) -> set[str]:
        """The parts of the fact that were emptied."""
        return {part.name for part in self.fact.tables if part.table in self.truncates}

    @property
    def rejected(self) -> Rejected:
        """The changes of which something cannot be counted."""
        found = Rejected(0, None)
        for note in self._notes:
            found = found.beside(Rejected(*note["rejected"]))
        return found

    @property
    def left_out(self) -> dict[str, int]:
        """By part, how many rows more or fewer belong to no group because of a null."""
        found: dict[str, int] = {}
        for note in self._notes:
            for part, rows in note["left_out"].items():
                found[part] = found.get(part, 0) + rows
        return found

    def deltas(self, bucket: int | None, part: str | None = None) -> list[pa.Table]:
        """Return what the changes add to the groups of a bucket, of one part or of all."""
        return self._of_parts("deltas", bucket, part)

    def archived(self, bucket: int | None, part: str | None = None) -> list[pa.Table]:
        """Return the deletes that the fact ignores, as what it still counts of them."""
        return self._of_parts("archived", bucket, part)

    def applied(self, rows: Iterable[pa.Table]) -> list[pa.Table]:
        """Return current rows, of all buckets, after the changes."""
        return current_rows.applied(rows, self._tables("events", 0), self.fact, self.slot)

    @cached_property
    def _notes(self) -> list[dict[str, Any]]:
        return [
            json.loads(note)
            for each in self._tables("note", 0)
            for note in each["note"].to_pylist()
        ]

    def _of_parts(self, what: str, bucket: int | None, part: str | None) -> list[pa.Table]:
        parts = [each.name for each in self.fact.tables] if part is None else [part]
        return [table for each in parts for table in self._tables(f"{what} {each}", bucket)]

    def _tables(self, what: str, bucket: int | None) -> list[pa.Table]:
        return self.gathered.tables(f"{self.place} {what}", bucket)
