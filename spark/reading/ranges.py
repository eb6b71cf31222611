"""What one task reads: a range of the change log, or a file of the archive. Executors import it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from common import arrow_source, changes
from pyspark.sql.datasource import InputPartition

from waltally import lsn
from waltally.tables import Table, literal

_MOMENT = pa.timestamp("us", "UTC")
_COLUMNS = pa.schema(
    [
        pa.field("slot_name", pa.string()),
        pa.field("commit_lsn", pa.int64()),
        pa.field("ordinal", pa.int64()),
        pa.field("xid", pa.int64()),
        pa.field("committed_at", _MOMENT),
        pa.field("staged_at", _MOMENT),
        pa.field("action", pa.string()),
        pa.field("payload", pa.string()),
    ]
)


class Pruned(Exception):
    """Changes of the range were pruned before they were read."""


@dataclass(frozen=True)
class Range(InputPartition):
    """The changes with from_lsn <= commit_lsn < to_lsn of a slot."""

    slot: str
    from_lsn: int
    to_lsn: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield them in bounded memory."""
        for batch in self._read():
            yield self._shaped(batch)

    def _read(self) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    def _shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the columns of the data source."""
        slot = pa.array([self.slot] * batch.num_rows, pa.string())
        found = [slot, *(batch.column(each.name).cast(each.type) for each in list(_COLUMNS)[1:])]
        return pa.RecordBatch.from_arrays(found, schema=_COLUMNS)


@dataclass(frozen=True)
class LogRange(Range):
    """A range that the change log has; `conninfo` may hold a password."""

    schema: str
    conninfo: str = field(repr=False)

    def _read(self) -> Iterator[pa.RecordBatch]:
        query = changes.query(self.schema, self.slot, self.from_lsn, self.to_lsn)
        yield from arrow_source.batches(self.conninfo, query)
        # After the last row: a prune removes rows and raises no error.
        begins = (
            f"select 1 as here from {Table(self.schema, 'slot_position').quoted}"
            f" where slot_name = {literal(self.slot)}"
            f" and start_lsn <= {literal(lsn.show(self.from_lsn))}"
        )
        if not sum(batch.num_rows for batch in arrow_source.batches(self.conninfo, begins)):
            raise Pruned(
                f"the changes from {lsn.show(self.from_lsn)} on were pruned while they were read;"
                " read them from an archive, or let the stream register with the option reader"
            )


@dataclass(frozen=True)
class ArchivedRange(Range):
    """A range of one file of an archive."""

    archive: str
    file: str

    def _read(self) -> Iterator[pa.RecordBatch]:
        import pyarrow.dataset as dataset

        from reading.log import file_system

        files, home = file_system(self.archive)
        found = dataset.dataset(
            f"{home}/slot={self.slot}/{self.file}", format="parquet", filesystem=files
        )
        position = pc.field("commit_lsn")
        within = (position >= self.from_lsn) & (position < self.to_lsn)
        for batch in found.to_batches(columns=_COLUMNS.names[1:], filter=within):
            if batch.num_rows:
                yield batch
