"""Counts ranges of the change log for several facts, and writes what they add up to.

Executors import it, and the driver runs the same functions where there are few changes. A task is
given the numbers of its ranges, so that no payload goes through Spark: it reads them by Arrow and
counts them in the same function.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from rules.numbers import parse, print_number
from rules.tallies import Counting, Position, Sums, Tally, add_sums

from waltally.facts import Fact
from waltally.tables import Table
from waltally_jobs.common import arrow
from waltally_jobs.common.log_rows import rows_of

PARTIAL = (
    "fact int, bucket int, part string, commit_lsn bigint, dimensions array<string>,"
    " sums array<string>, note string"
)
"""What a range adds to a group of a fact; with a part they are deletes that the fact ignores.

A note is what the range says besides groups, as JSON.
"""

WRITTEN = "fact int, attempt bigint, row_count bigint, note string"
"""How many rows a task has written for a fact, or a note of a range."""

_PARTIAL = pa.schema(
    [
        pa.field("fact", pa.int32()),
        pa.field("bucket", pa.int32()),
        pa.field("part", pa.string()),
        pa.field("commit_lsn", pa.int64()),
        pa.field("dimensions", pa.list_(pa.string())),
        pa.field("sums", pa.list_(pa.string())),
        pa.field("note", pa.string()),
    ]
)
_ROWS = 20_000
"""Of a batch."""


@dataclass(frozen=True)
class Work:
    """What is counted: for each fact the changes from one of `begins` on, up to `end`.

    `ranges` are where each range begins, every one of `begins` among them, and the query of its
    changes. `truncates` says where each table was last emptied. `conninfo` may hold a password.
    """

    slot: str
    schema: str
    batch: str
    facts: tuple[Fact, ...]
    begins: tuple[int, ...]
    ranges: tuple[tuple[int, str], ...]
    truncates: Mapping[Table, Position]
    conninfo: str = field(repr=False)


@dataclass
class Note:
    """What ranges say of a fact besides its groups: `left_out` is by part."""

    changes: int = 0
    rejected_lsn: int | None = None
    left_out: dict[str, int] = field(default_factory=dict)

    def add(self, other: Note) -> None:
        """Add what another range says."""
        self.changes += other.changes
        positions = [at for at in (self.rejected_lsn, other.rejected_lsn) if at is not None]
        self.rejected_lsn = max(positions, default=None)
        for part, rows in other.left_out.items():
            self.left_out[part] = self.left_out.get(part, 0) + rows


def count(work: Work, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """Yield what each of these ranges adds, with the columns of PARTIAL."""
    for number in numbers:
        begin, query = work.ranges[number]
        places = [place for place, first in enumerate(work.begins) if first <= begin]
        counting = Counting([work.facts[place] for place in places], work.slot, work.truncates)
        changes = 0
        for batch in arrow.batches(work.conninfo, query):
            changes += batch.num_rows
            counting.count(rows_of(batch))
        rows = itertools.chain.from_iterable(
            _partials(place, tally, changes)
            for place, tally in zip(places, counting.finish(), strict=True)
        )
        yield from _batches(rows)


def write(work: Work, partials: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up what ranges add, and write it into computed_group; yield the columns of WRITTEN.

    Only rows of the attempts that are returned count.
    """
    groups: dict[tuple[int, str | None, int | None, tuple[str | None, ...]], Sums] = {}
    notes: list[tuple[int, str]] = []
    for batch in partials:
        columns = (batch.column(name).to_pylist() for name in _PARTIAL.names if name != "bucket")
        for place, part, at, dimensions, sums, note in zip(*columns, strict=True):
            if note is not None:
                notes.append((place, note))
            else:
                add_sums(groups, (place, part, at, tuple(dimensions)), [*map(parse, sums)])
    # An archived delete is listed even where it adds nothing.
    kept_groups = [(key, sums) for key, sums in groups.items() if key[1] is not None or any(sums)]
    attempt = _store(work, kept_groups) if kept_groups else 0
    counts: dict[int, int] = {}
    for (place, *_), _ in kept_groups:
        counts[place] = counts.get(place, 0) + 1
    yield pa.RecordBatch.from_pydict(
        {
            "fact": pa.array([*counts, *(place for place, _ in notes)], pa.int32()),
            "attempt": pa.array([*(attempt for _ in counts), *(None for _ in notes)], pa.int64()),
            "row_count": pa.array([*counts.values(), *(None for _ in notes)], pa.int64()),
            "note": pa.array([*(None for _ in counts), *(note for _, note in notes)], pa.string()),
        }
    )


def _partials(place: int, tally: Tally, changes: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of PARTIAL that say what a range adds to a fact."""
    for (_, group), sums in tally.groups.items():
        if any(sums):
            yield place, _bucket(place, group), None, None, group, _texts(sums), None
    for (part, group, at), sums in tally.archived.items():
        yield place, _bucket(place, group), part, at, group, _texts(sums), None
    note = {
        "changes": changes,
        "rejected_lsn": tally.last_rejected_lsn,
        "left_out": tally.left_out,
    }
    yield place, 0, None, None, None, None, json.dumps(note)


def _bucket(place: int, group: Sequence[str | None]) -> int:
    """Return a number that every process gives to the group: its sums meet in one task by it."""
    return zlib.crc32(f"{place}{group}".encode()) & 0x7FFFFFFF


def _texts(sums: Sums) -> list[str]:
    return [print_number(each) for each in sums]


def _batches(rows: Iterator[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
    while chunk := list(itertools.islice(rows, _ROWS)):
        columns = zip(*chunk, strict=True)
        arrays = [pa.array(each, kind.type) for each, kind in zip(columns, _PARTIAL, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_PARTIAL)


def _store(work: Work, groups: Sequence[tuple[Any, Sums]]) -> int:
    """Write groups; return the attempt."""
    models = [str(fact.relation) for fact in work.facts]

    def batches() -> Iterator[pa.RecordBatch]:
        for begin in range(0, len(groups), _ROWS):
            part = groups[begin : begin + _ROWS]
            yield pa.RecordBatch.from_pydict(
                {
                    "slot_name": [work.slot] * len(part),
                    "model_name": [models[place] for (place, *_), _ in part],
                    "batch": [work.batch] * len(part),
                    "part": pa.array([key[1] for key, _ in part], pa.string()),
                    "commit_lsn": pa.array([key[2] for key, _ in part], pa.int64()),
                    "dimensions": pa.array([key[3] for key, _ in part], pa.list_(pa.string())),
                    "sums": pa.array([_texts(sums) for _, sums in part], pa.list_(pa.string())),
                }
            )

    attempt, _ = arrow.append(work.conninfo, Table(work.schema, "computed_group"), batches())
    return attempt
