"""The format `waltally`: the changes between two positions, in ranges that executors read as Arrow.

PySpark runs this in processes of its own, beside the driver and on executors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from common import changes
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

from reading.log import Log, Options, Range
from waltally import lsn
from waltally.errors import CannotConnect, Interrupted, LoaderError, SettingError

SCHEMA = f"slot_name string, {changes.SCHEMA}"
"""The columns of cdc.change_log; positions are integers, in bytes of WAL."""

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
    """The change log of a slot."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "waltally"

    def schema(self) -> str:
        """Return the columns."""
        return SCHEMA

    @_remedies()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the changes between `begin` and `end`."""
        options = Options.of(self.options)
        if options.reader or options.max_changes:
            raise SettingError(
                "maxChanges and reader are options of a stream", "leave them out of spark.read"
            )
        return Batch(options)

    @_remedies()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what reads the changes from `begin` on, for ever."""
        options = Options.of(self.options)
        if options.end is not None:
            raise SettingError("a stream has no end", "leave end out, or use spark.read")
        return Stream(options)


class Batch(DataSourceReader):
    """Reads the changes between two positions once."""

    def __init__(self, options: Options) -> None:
        """Read with these options."""
        self._options = options

    @_remedies()
    def partitions(self) -> Sequence[InputPartition]:
        """Return the ranges, one task each."""
        with contextlib.closing(Log(self._options)) as log:
            begin, end = self._options.begin, self._options.end
            return log.ranges(
                log.begin if begin is None else begin, log.end if end is None else end
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the changes of a range."""
        assert isinstance(partition, Range)
        return partition.batches()


class Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes from a position on; an offset is the position before which all are read."""

    def __init__(self, options: Options) -> None:
        """Read with these options."""
        self._options = options
        self._log: Log | None = None
        self._last: int | None = None
        self._is_registered = False

    def initialOffset(self) -> Offset:
        """Return where a new query begins."""
        begin = self._options.begin
        return _offset(self._ask(lambda log: log.begin) if begin is None else begin)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how many changes a batch has."""
        most = self._options.max_changes
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """End at what is there now."""
        self._last = self._ask(lambda log: log.end)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return where the next batch ends: between two transactions."""
        begin = _position(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None

        def end(log: Log) -> int:
            if self._options.reader is not None and not self._is_registered:
                log.register(self._options.reader, begin)
                self._is_registered = True
            last = log.end if self._last is None else self._last
            return max(begin, last if most is None or last <= begin else log.cut(begin, last, most))

        return _offset(self._ask(end))

    def reportLatestOffset(self) -> Offset:
        """Return how far the log is, for the query's progress."""
        return _offset(self._ask(lambda log: log.end))

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the ranges of a batch, one task each."""
        return self._ask(lambda log: log.ranges(_position(start), _position(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the changes of a range."""
        assert isinstance(partition, Range)
        return partition.batches()

    def commit(self, end: Offset) -> None:
        """Write down that everything before the offset is done with."""
        reader = self._options.reader
        if reader is not None:
            self._ask(lambda log: log.move(reader, _position(end)))

    def stop(self) -> None:
        """End the session."""
        if self._log is not None:
            self._log.close()
            self._log = None

    @_remedies()
    def _ask(self, question: Callable[[Log], Result]) -> Result:
        """Ask the log, in a session that is kept; once more in a new one where that had ended."""
        if self._log is not None:
            try:
                return question(self._log)
            except (CannotConnect, Interrupted):
                self.stop()
        self._log = Log(self._options)
        return question(self._log)

    def __getstate__(self) -> dict[str, Any]:
        """Executors get no session."""
        return {**self.__dict__, "_log": None}


def _offset(position: int) -> Offset:
    return {"lsn": lsn.show(position)}


def _position(offset: Offset) -> int:
    return lsn.parse(offset["lsn"])
