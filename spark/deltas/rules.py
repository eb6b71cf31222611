"""The changes of an interval as one fact sees them, over Spark. Pure: no driver.

`changes` has the columns commit_lsn (a WAL position as an integer), ordinal, action (null where the
loader could not say) and payload, all of one slot and in any order. Each task counts its own by the
functions of `rules`, and groups with the same values are added up. `part` is the fact's name of a
table, and groups are as common.exact_sums has them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from common import exact_sums
from common.log_rows import rows_of
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from rules import messages
from rules.numbers import print_number
from rules.tallies import Counting, Position, Sums, Tally

from deltas import current_rows
from waltally.facts import Fact

_COUNTED = (
    "kind string, part string, commit_lsn bigint, dimensions array<string>, sums array<string>,"
    " note string"
)
_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string()),
        pa.field("part", pa.string()),
        pa.field("commit_lsn", pa.int64()),
        pa.field("dimensions", pa.list_(pa.string())),
        pa.field("sums", pa.list_(pa.string())),
        pa.field("note", pa.string()),
    ]
)


@dataclass(frozen=True)
class Rejected:
    """How many changes could not be counted, the position of the first one and why it could not."""

    count: int
    first_lsn: int | None
    first_reason: str | None = None

    def beside(self, other: Rejected) -> Rejected:
        """Return both together, of which either may come first."""
        is_first = self.first_lsn is None or (other.first_lsn or 0) < self.first_lsn
        return other.and_then(self) if other.count and is_first else self.and_then(other)

    def and_then(self, later: Rejected) -> Rejected:
        """Return both together."""
        first = later if self.first_lsn is None else self
        return Rejected(self.count + later.count, first.first_lsn, first.first_reason)


@dataclass(frozen=True)
class Lacking:
    """New rows that cannot be counted: of a table, for one reason, with one of them as JSON."""

    part: str
    reason: str
    count: int
    example: str


class FactChanges:
    """What the changes add to a fact, take away and cannot say.

    A TRUNCATE cancels everything before it of its part, in these changes and in what was counted
    before them. The changes are read once, when something of them is first asked.
    """

    def __init__(
        self, changes: DataFrame, fact: Fact, slot: str, *, may_truncate: bool = True
    ) -> None:
        self.fact = fact
        self._slot = slot
        self._changes = changes.select("commit_lsn", "ordinal", "action", "payload")
        self._may_truncate = may_truncate

    @cached_property
    def truncates(self) -> dict[str, Position]:
        """The last TRUNCATE of each part that has one. Reads the changes when it is first asked."""
        if not self._may_truncate:
            return {}
        parts = {(each.table.schema, each.table.name): each.name for each in self.fact.tables}

        def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for at, ordinal, _, payload in rows_of(batch):
                    table = messages.truncated_table(payload)
                    part = parts.get((table.schema, table.name)) if table else None
                    if part is not None:
                        yield pa.RecordBatch.from_pydict(
                            {"part": [part], "commit_lsn": [at], "ordinal": [ordinal]}
                        )

        # A filter on raw columns, so that Spark can skip parts of the files.
        candidates = self._changes.where("action is null or action = 'T'")
        found = candidates.mapInArrow(find, "part string, commit_lsn bigint, ordinal bigint")
        last: dict[str, Position] = {}
        for part, at, ordinal in found.collect():
            last[part] = max(last.get(part, (at, ordinal)), (at, ordinal))
        return last

    @property
    def rejected(self) -> Rejected:
        """The changes of which something cannot be counted."""
        found = Rejected(0, None)
        for note in self._notes:
            found = found.beside(Rejected(*note["rejected"]))
        return found

    @property
    def lacking(self) -> list[Lacking]:
        """The new rows that cannot be counted, by table and reason."""
        counts: dict[tuple[str, str], Lacking] = {}
        for note in self._notes:
            for part, reason, count, example in note["lacking"]:
                before = counts.get((part, reason), Lacking(part, reason, 0, json.dumps(example)))
                counts[part, reason] = Lacking(part, reason, before.count + count, before.example)
        return [counts[key] for key in sorted(counts)]

    def deltas(self, *, all_deletes: bool = False) -> DataFrame:
        """Return what the changes add to each group: part, dimensions, sums.

        Groups that net to nothing are left out. With `all_deletes` those count too that the fact
        ignores. Not for current rows, whose old images are keys.
        """
        found = self._counted.where("kind = 'group'").select("part", "dimensions", "sums")
        if all_deletes:
            ignored = self._counted.where("kind = 'archived'")
            minus = exact_sums.negated(sql.col("sums"), sql.lit(-1))
            found = found.unionByName(ignored.select("part", "dimensions", minus.alias("sums")))
        summed = exact_sums.summed(found, self.fact, "part", "dimensions")
        return summed.where(~exact_sums.is_nothing(self.fact))

    def archived_deletes(self) -> DataFrame:
        """Return the rows that were deleted from tables whose deletes the fact ignores.

        As groups with part, dimensions and sums, which are what the fact still counts of them.
        """
        deleted = self._counted.where("kind = 'archived'").select("part", "dimensions", "sums")
        return exact_sums.summed(deleted, self.fact, "part", "dimensions")

    def left_out(self) -> dict[str, int]:
        """Return by part how many rows more or fewer belong to no group because of a null.

        Every delete counts, also where the fact ignores it.
        """
        found: dict[str, int] = {}
        for note in self._notes:
            for part, rows in note["left_out"].items():
                found[part] = found.get(part, 0) + rows
        return found

    def untruncated(self, groups: DataFrame) -> DataFrame:
        """Return those of the groups before the changes that no TRUNCATE cancels."""
        return groups.where(~sql.col("part").isin(list(self.truncates)))

    def applied_to(self, groups: DataFrame, *by: str, all_deletes: bool = False) -> DataFrame:
        """Return the groups, which have a part, after the changes: the columns `by`, and sums.

        Groups of zeros are left out; the fact may keep such rows.
        """
        if self.fact.kind == "current_rows":
            rows = current_rows.applied(groups, self._counted, self.fact)
            return rows.withColumn("part", sql.lit(self.fact.tables[0].name)).select(*by, "sums")
        together = self.untruncated(groups).unionByName(self.deltas(all_deletes=all_deletes))
        return exact_sums.summed(together, self.fact, *by).where(~exact_sums.is_nothing(self.fact))

    @cached_property
    def _counted(self) -> DataFrame:
        """What each task has counted: groups, archived deletes or row events, and notes."""
        fact, slot = self.fact, self._slot
        truncates = {fact.part(name).table: at for name, at in self.truncates.items()}

        def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            counting = Counting([fact], slot, truncates)
            for batch in batches:
                counting.count(rows_of(batch))
            (tally,) = counting.finish()
            yield from as_batches(_rows(tally))

        if fact.kind == "current_rows":
            return current_rows.judged(self._changes, fact, slot, truncates).persist()
        return self._changes.mapInArrow(count, _COUNTED).persist()

    @cached_property
    def _notes(self) -> list[dict[str, Any]]:
        return [
            json.loads(text)
            for (text,) in self._counted.where("kind = 'note'").select("note").collect()
        ]


def _rows(tally: Tally) -> Iterator[tuple[Any, ...]]:
    for (part, group), sums in tally.groups.items():
        yield "group", part, None, group, _texts(sums), None
    for (part, group, at), sums in tally.archived.items():
        yield "archived", part, at, group, _texts(sums), None
    left_out = dict(tally.left_out)
    for part, rows in tally.purged.items():
        left_out[part] = left_out.get(part, 0) + rows
    first = tally.first_rejected or (None, None)
    note = {
        "rejected": [tally.rejected_count, *first],
        "left_out": left_out,
        "lacking": [
            [part, reason, each.count, each.example]
            for (part, reason), each in tally.lacking.items()
        ],
    }
    yield "note", None, None, None, None, json.dumps(note)


def _texts(sums: Sums) -> list[str]:
    return [print_number(each) for each in sums]


_BATCH = 20_000


def as_batches(rows: Iterator[Sequence[Any]]) -> Iterator[pa.RecordBatch]:
    """Yield rows of _COUNTED as Arrow has them."""
    while chunk := list(itertools.islice(rows, _BATCH)):
        columns = zip(*chunk, strict=True)
        arrays = [pa.array(each, kind.type) for each, kind in zip(columns, _SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
