"""The format `waltally`: the changes between two positions, in ranges that executors read as Arrow.

PySpark runs this in processes of its own, beside the driver and on executors.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from waltally import lsn
from waltally.errors import LoaderError, SettingError
from waltally.tables import Table, literal
from waltally_jobs.common import arrow, changes
from waltally_jobs.common.arrow import Read
from waltally_jobs.common.connections import TargetSession, connect_target, resolved
from waltally_jobs.common.errors import SnapshotTooOld
from waltally_jobs.data_source import table_rows
from waltally_jobs.data_source.options import Options
from waltally_jobs.data_source.table_rows import TableRows

SCHEMA = f"slot_name string, {changes.SCHEMA}"
"""The columns of cdc.change_log; positions are integers, in bytes of WAL."""
_COLUMNS = arrow.schema(SCHEMA)


class Pruned(Exception):
    """Changes of the range were pruned before they were read."""


@dataclass(frozen=True)
class Range(InputPartition):
    """The changes with from_lsn <= commit_lsn < to_lsn of a slot; `read` may hold a password."""

    slot: str
    from_lsn: int
    to_lsn: int
    read: Read = field(repr=False)

    def batches(self, rows: TableRows | None = None) -> Iterator[pa.RecordBatch]:
        """Yield them in bounded memory: as they are in the log, or as rows of one table."""
        for batch in self.read():
            slot = pa.repeat(self.slot, batch.num_rows)
            named = batch.append_column("slot_name", slot).select(_COLUMNS.names)
            shaped = named.cast(_COLUMNS)
            yield shaped if rows is None else rows.rows(shaped)


def _read_log(
    conninfo: str, schema: str, slot: str, from_lsn: int, to_lsn: int
) -> Iterator[pa.RecordBatch]:
    yield from arrow.batches(conninfo, changes.query(schema, slot, from_lsn, to_lsn))
    # After the last row: a prune removes rows and raises no error.
    begins = (
        f"select 1 as here from {Table(schema, 'slot_position').quoted}"
        f" where slot_name = {literal(slot)} and start_lsn <= {literal(lsn.show(from_lsn))}"
    )
    if not sum(batch.num_rows for batch in arrow.batches(conninfo, begins)):
        raise Pruned(
            f"the changes from {lsn.show(from_lsn)} on were pruned while they were read;"
            " let a stream register with the option reader, so that a prune keeps them"
        )


def ranges_of(target: TargetSession, begin: int, end: int) -> list[Range]:
    """Return ranges that hold each change with begin <= commit_lsn < end once: one at least.

    Raises SnapshotTooOld where not all are there.
    """
    slot = target.position()
    if end > slot.position_lsn or begin < min(slot.start_lsn, end):
        raise SnapshotTooOld(
            f"the changes from {lsn.show(begin)} up to {lsn.show(end)} are asked for; the"
            f" change log holds those from {lsn.show(slot.start_lsn)} up to"
            f" {lsn.show(slot.position_lsn)}",
            "ask for these; a stream that names a reader loses none to a prune",
        )
    place = resolved(target), target.schema, target.slot
    # An empty range: Spark takes no empty list of ranges.
    ends = [*changes.ends(target, begin, end)] or [begin]
    return [
        Range(target.slot, *bounds, partial(_read_log, *place, *bounds))
        for bounds in itertools.pairwise([begin, *ends])
    ]


def register(target: TargetSession, reader: str, position: int) -> None:
    """Let `loader prune` keep what a reader has not read, which begins at the position."""
    target.ask_staging(
        "insert into {}.reader_position as known (slot_name, reader, applied_lsn)"
        " values (%s, %s, %s)"
        " on conflict (slot_name, reader) do update set applied_lsn = excluded.applied_lsn"
        " where known.applied_lsn > '0/0'",
        (target.slot, reader, lsn.show(position)),
    )


def require_same(target: TargetSession, reader: str) -> None:
    """Raise SnapshotTooOld where the log begins after a reader's position, as after a renewal."""
    row = f"slot_name = {literal(target.slot)} and reader = {literal(reader)}"
    table = target.table("reader_position")
    known = f"select coalesce(max(applied_lsn), '0/0')::text from {table} where {row}"
    ((position,),) = target.ask(known)
    start_lsn = target.position().start_lsn
    if lsn.parse(position) < start_lsn:
        raise SnapshotTooOld(
            f"the change log begins at {lsn.show(start_lsn)} now, after the position {position} of"
            f" {reader}: it began anew, or was pruned",
            f"delete from {table} where {row}; -- and begin with another folder and checkpoint",
        )


def move(target: TargetSession, reader: str, position: int) -> None:
    """Write down that a reader has read everything before the position."""
    target.ask_staging(
        "update {}.reader_position set applied_lsn = %s, moved_at = now()"
        " where slot_name = %s and reader = %s",
        (lsn.show(position), target.slot, reader),
    )


Offset = dict[str, Any]
Result = TypeVar("Result")


@contextlib.contextmanager
def _remedies() -> Iterator[None]:
    """Put the remedy into the text of an error, which is all that Spark shows of it."""
    try:
        yield
    except LoaderError as error:
        raise type(error)(error.sentence) from None


class ChangeLogSource(DataSource):
    """The change log of a slot; `is_whole` says that its columns are what `schema` has given."""

    is_whole = False

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "waltally"

    @_remedies()
    def schema(self) -> str:
        """Return the columns, where the user has given none."""
        options = Options.of(self.options)
        table = options.table
        return SCHEMA if table is None else table_rows.schema(table, options.source)

    @_remedies()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the changes between `begin` and `end`."""
        options = Options.of(self.options)
        if options.reader or options.max_changes:
            raise SettingError(
                "maxChanges and reader are options of a stream", "leave them out of spark.read"
            )
        return Batch(options, schema)

    @_remedies()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what reads the changes from `begin` on, for ever."""
        options = Options.of(self.options)
        if options.end is not None:
            raise SettingError("a stream has no end", "leave end out, or use spark.read")
        return Stream(options, schema, self.is_whole)


class _Reader:
    """What asks for ranges, and reads one in a task."""

    def __init__(self, options: Options, schema: StructType) -> None:
        """Read with these options, for columns that Spark has asked `ChangeLogSource` for."""
        self._options = options
        self._rows = None if options.table is None else TableRows.of(options.table, schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the changes of a range."""
        assert isinstance(partition, Range)
        return partition.batches(self._rows)

    @_remedies()
    def _ask(self, question: Callable[[TargetSession], Result]) -> Result:
        with contextlib.closing(connect_target(self._options, "data source")) as target:
            return question(target)


class Batch(_Reader, DataSourceReader):
    """Reads the changes between two positions once."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return the ranges, one task each."""

        def ranges(target: TargetSession) -> list[Range]:
            slot, begin, end = target.position(), self._options.begin, self._options.end
            return ranges_of(
                target,
                slot.start_lsn if begin is None else begin,
                slot.position_lsn if end is None else end,
            )

        return self._ask(ranges)


class Stream(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes from a position on; an offset is the position before which all are read."""

    _last: int | None = None
    """Where it ends, of a query that ends."""
    _is_registered = False

    def __init__(self, options: Options, schema: StructType, is_whole: bool) -> None:
        """Read with these options; `is_whole` asks for every column that the table has."""
        super().__init__(options, schema)
        self._is_whole = is_whole

    def initialOffset(self) -> Offset:
        """Return where a new query begins."""
        begin = self._options.begin
        if begin is None:
            begin = self._ask(lambda target: target.position().start_lsn)
        return _offset(begin)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how many changes a batch has."""
        most = self._options.max_changes
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """End at what is there now."""
        self._last = self._ask(lambda target: target.position().position_lsn)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return where the next batch ends: between two transactions."""
        begin = _position(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None

        def end(target: TargetSession) -> int:
            if self._options.reader is not None:
                if not self._is_registered:
                    register(target, self._options.reader, begin)
                    self._is_registered = True
                require_same(target, self._options.reader)
            last = target.position().position_lsn if self._last is None else self._last
            if self._is_whole and self._rows is not None:
                self._rows.require_whole(self._options.source)
            if most is None or last <= begin:
                return max(begin, last)
            # Between two transactions.
            return next(changes.ends(target, begin, last, most))

        return _offset(self._ask(end))

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the ranges of a batch, one task each."""
        return self._ask(lambda target: ranges_of(target, _position(start), _position(end)))

    def commit(self, end: Offset) -> None:
        """Write down that everything before the offset is done with."""
        reader = self._options.reader
        if reader is not None:
            self._ask(lambda target: move(target, reader, _position(end)))


def _offset(position: int) -> Offset:
    return {"lsn": lsn.show(position)}


def _position(offset: Offset) -> int:
    return lsn.parse(offset["lsn"])
