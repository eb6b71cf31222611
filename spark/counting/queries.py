"""The groups of models that are queries: the source's server evaluates the query, range by range.

What ranges have of one group is added up by the target. No rule of a query is written here.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa
from common.command import Settings
from common.connections import connect
from psycopg2 import DataError, NotSupportedError, errors

from counting import ranges
from counting.ranges import Leaf
from counting.reading import for_readers
from counting.snapshot import ExportedSnapshot
from waltally.database import Connection, Row, Target
from waltally.errors import LoaderError, RowTooLarge
from waltally.facts import Fact, FactTable
from waltally.tables import quoted

COLUMNS = pa.schema(
    [
        pa.field("fact", pa.string()),
        pa.field("part", pa.string()),
        pa.field("dimensions", pa.list_(pa.string())),
        pa.field("row_count", pa.int64()),
        pa.field("sums", pa.list_(pa.string())),
        pa.field("reason", pa.string()),
        pa.field("example", pa.string()),
    ]
)
MAX_REJECTED = 1000
"""More rows than these that the query cannot take end a seed, as they end the stream."""
ROW_AT_FAULT = (
    *(DataError, NotSupportedError, errors.CardinalityViolation, errors.SyntaxError),
    *(errors.ProgramLimitExceeded,),
)
"""What a row itself is to blame for, as in cdc.find_bad_images; never memory, disk or locks."""


Taken = TypeVar("Taken")
Take = Callable[[Connection, FactTable, str], Taken]
"""Takes at the source what a query gives of a table's range."""


@dataclass(frozen=True)
class RejectedRow:
    """A row that a query cannot take, and PostgreSQL's reason."""

    reason: str
    example: str


def counted(
    settings: Settings,
    target: Target,
    facts: Sequence[Fact],
    exported: ExportedSnapshot,
    moved: Sequence[tuple[Fact, FactTable]] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield the groups of each range, and the rows that a query cannot take.

    The tables `moved` are left out: the target evaluates their rows. Raises LoaderError.
    """

    def ask(source: Connection, _: FactTable, query: str) -> list[Row]:
        return source.ask(query)

    for fact, part, found in evaluated(settings, target, facts, exported, ask, moved):
        if isinstance(found, RejectedRow):
            yield _batch(fact, part, [([], 1, [], found.reason, found.example)])
        elif found:
            yield _batch(fact, part, [(*row, None, None) for row in found])


def evaluated(
    settings: Settings,
    target: Target,
    facts: Sequence[Fact],
    exported: ExportedSnapshot,
    take: Take[Taken],
    moved: Sequence[tuple[Fact, FactTable]] = (),
) -> Iterator[tuple[Fact, FactTable, Taken | RejectedRow]]:
    """Yield what is taken of each range, and apart each row that a query cannot take.

    Raises LoaderError.
    """
    leaves = dict(exported.found)
    size = ranges.pages_per_range(
        exported.found, settings.partitions, ranges.PAGES_PER_GROUPED_RANGE
    )
    work = [
        (fact, place, part, leaf, condition)
        for fact in facts
        for place, part in enumerate(fact.tables, 1)
        if (fact, part) not in moved
        for leaf in leaves[part.table]
        for condition in ranges.cut(leaf, size)
    ]
    with contextlib.closing(connect(for_readers(exported.conninfo), "source")) as source:
        source.ask("begin isolation level repeatable read read only")
        source.ask(f"set transaction snapshot '{exported.name}'")
        for fact, place, part, leaf, condition in work:
            exported.check()
            evaluation = _Evaluation(source, target, fact, part, place, leaf, take)
            for found in evaluation.of(condition):
                yield fact, part, found


class _Evaluation(Generic[Taken]):
    """One model's query over ranges of one table."""

    def __init__(
        self,
        source: Connection,
        target: Target,
        fact: Fact,
        part: FactTable,
        place: int,
        leaf: Leaf,
        take: Take[Taken],
    ) -> None:
        self._source, self._target, self._take = source, target, take
        self._fact, self._part, self._place, self._leaf = fact, part, place, leaf
        self._rejected = 0

    def of(self, condition: str) -> Iterator[Taken | RejectedRow]:
        """Yield what the rows that meet a condition give; rows that the query refuses apart."""
        range_ = f"from only {self._leaf.table.quoted} where {condition}"
        ((query,),) = self._target.ask_staging(
            "select {}.write_range(%s, %s, %s)",
            (json.dumps(self._fact.declaration), self._place, range_),
        )
        self._source.ask("savepoint range")
        try:
            self._source.ask(
                "select set_config('timezone', %s, true)", (self._fact.declaration["timezone"],)
            )
            taken = self._take(self._source, self._part, query)
        except LoaderError as error:
            if not isinstance(error.__cause__, ROW_AT_FAULT):
                raise
            self._source.ask("rollback to savepoint range")
            yield from self._halves(condition, str(error.__cause__).partition("\n")[0])
            return
        self._source.ask("release savepoint range")
        yield taken

    def _halves(self, condition: str, reason: str) -> Iterator[Taken | RejectedRow]:
        """Yield the same of the halves of a range with a row that the query cannot take."""
        ((count, middle),) = self._source.ask(
            "select count(*), (array_agg(ctid order by ctid))[count(*) / 2 + 1]::text"
            f" from only {self._leaf.table.quoted} where {condition}"
        )
        if count > 1:
            yield from self.of(f"{condition} and ctid < '{middle}'")
            yield from self.of(f"{condition} and ctid >= '{middle}'")
            return
        self._rejected += 1
        if self._rejected > MAX_REJECTED:
            raise RowTooLarge(
                f"The query of {self._fact.name} cannot take more than {MAX_REJECTED:,} rows of"
                f" {self._part.table}; the last of them: {reason}",
                "write the query so that it takes them, then `loader setup`, `dbt build`, and seed",
            )
        columns = ", ".join(
            f"left({quoted(name)}::text, 100) as {quoted(name)}"
            for name in self._fact.needed_columns(self._part)
        )
        ((example,),) = self._source.ask(
            f"select to_jsonb(example)::text from (select {columns}"
            f" from only {self._leaf.table.quoted} where {condition}) as example"
        )
        yield RejectedRow(reason, example)


def _batch(fact: Fact, part: FactTable, rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    dimensions, counts, sums, reasons, examples = zip(*rows, strict=True)
    count = len(rows)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([fact.name] * count, pa.string()),
            pa.array([part.name] * count, pa.string()),
            pa.array(dimensions, pa.list_(pa.string())),
            pa.array(counts, pa.int64()),
            pa.array(sums, pa.list_(pa.string())),
            pa.array(reasons, pa.string()),
            pa.array(examples, pa.string()),
        ],
        schema=COLUMNS,
    )
