"""What the changes of an interval do to facts, as tables that the tasks make which read them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as compute
from common import sums
from common.arrow import Task
from common.buckets import by_bucket, payload
from common.gathering import Gathered
from common.log_rows import rows_of
from rules import messages
from rules.judging import Group
from rules.rows import folded
from rules.tallies import Counting, Position, Sums, Tally, add_sums

from deltas.current_rows import event_of, judged_batches
from deltas.rules import Rejected
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
        for batch in batches:
            if counted:
                counting.count(rows_of(batch))
            for place, fact in kept:
                for events in judged_batches(iter([batch]), fact, slot, truncates):
                    yield payload(f"{place} events", 0, pa.Table.from_batches([events]))
        for (place, fact), tally in zip(counted, counting.finish(), strict=True):
            yield from _tables(place, fact, tally, buckets)

    return make


def _tables(place: int, fact: Fact, tally: Tally, buckets: int) -> Iterator[pa.RecordBatch]:
    archived: dict[tuple[str, Group], Sums] = {}
    for (part, group, _), adds in tally.archived.items():
        add_sums(archived, (part, group), adds)
    for what, found in (("deltas", tally.groups), ("archived", archived)):
        for name in dict.fromkeys(part for part, _ in found):
            own = {group: adds for (part, group), adds in found.items() if part == name}
            yield from by_bucket(f"{place} {what} {name}", sums.groups_of(own, fact), buckets)
    note = {"rejected": [tally.rejected_count, *(tally.first_rejected or (None, None))]}
    yield payload(f"{place} note", 0, pa.table({"note": [json.dumps(note)]}))


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
        for note in self._notes():
            found = found.beside(Rejected(*json.loads(note)["rejected"]))
        return found

    def deltas(self, bucket: int | None) -> list[pa.Table]:
        """Return what the changes add to the groups of a bucket."""
        parts = (part.name for part in self.fact.tables)
        return [each for part in parts for each in self._tables(f"deltas {part}", bucket)]

    def archived(self, bucket: int | None) -> list[pa.Table]:
        """Return the deletes that the fact ignores, as what it still counts of them."""
        parts = (part.name for part in self.fact.tables)
        return [each for part in parts for each in self._tables(f"archived {part}", bucket)]

    def applied(self, rows: list[pa.Table]) -> list[pa.Table]:
        """Return current rows, of all buckets, after the changes."""
        events = [
            row
            for table in self._tables("events", 0)
            for row in table.to_pylist()
            if row["kind"] == "event"
        ]
        events.sort(key=lambda row: (row["commit_lsn"], row["ordinal"]))
        states, is_emptied = folded(map(event_of, events))
        fact = self.fact
        is_key = [each.name in fact.key for each in fact.dimensions]
        before: dict[Group, Group] = {}
        for table in [] if is_emptied else rows:
            texts = (each.to_pylist() for each in sums.dimensions_of(table, fact, self.slot))
            for row in zip(*texts, strict=True):
                before[tuple(text for text, own in zip(row, is_key, strict=True) if own)] = row
        now = {key: row for key, row in before.items() if key not in states}
        for key, state in states.items():
            if state is None:
                continue
            then = before.get(state.before) if state.before is not None else None
            if then is None and not all(is_there for is_there, _ in state.values):
                continue
            old = then or (None,) * len(state.values)
            now[key] = tuple(
                new if is_there else kept
                for (is_there, new), kept in zip(state.values, old, strict=True)
            )
        return [sums.groups_of({row: [1] for row in now.values()}, fact)]

    def _notes(self) -> Iterator[str]:
        if self.fact.kind == "fact":
            for table in self._tables("note", 0):
                yield from table["note"].to_pylist()
        else:
            for table in self._tables("events", 0):
                yield from filter(None, table["note"].to_pylist())

    def _tables(self, what: str, bucket: int | None) -> list[pa.Table]:
        return self.gathered.tables(f"{self.place} {what}", bucket)
