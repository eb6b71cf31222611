"""Where tables were emptied, in an archive's changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as compute

from waltally.tables import Table
from waltally_jobs.common import messages
from waltally_jobs.common.changes import Position

SCHEMA = "schema string, name string, at bigint, ordinal bigint"
"""The columns of what `find` makes."""


def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make rows of the changes that empty a table, for `last` to read."""
    for batch in batches:
        action = batch.column("action")
        is_candidate = compute.or_kleene(compute.is_null(action), compute.equal(action, "T"))
        found: dict[str, list[Any]] = {name: [] for name in ("schema", "name", "at", "ordinal")}
        for row in batch.filter(is_candidate).to_pylist():
            if (table := messages.truncated_table(row["payload"].encode())) is not None:
                values = (table.schema, table.name, row["commit_lsn"], row["ordinal"])
                for column, value in zip(found.values(), values, strict=True):
                    column.append(value)
        if found["at"]:
            yield pa.RecordBatch.from_pydict(found)


def last(rows: Iterable[Mapping[str, Any]]) -> dict[Table, Position]:
    """Return where each table was last emptied, from what `find` has made."""
    positions: dict[Table, Position] = {}
    for row in rows:
        table, position = Table(row["schema"], row["name"]), (row["at"], row["ordinal"])
        positions[table] = max(positions.get(table, position), position)
    return positions
