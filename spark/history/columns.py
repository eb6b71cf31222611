"""In which form the dimensions leave the server: uuids as 16 bytes, all else as text.

Turning a uuid into text is the dearest thing that the server could do for a row. The bytes become
text after counting, once a group.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from history.connections import Connection
from loader.tables import DIMENSIONS, Table

_UUIDS = """
    select attname
    from pg_attribute
    where
        attrelid = any(%s::text[]::regclass[])
        and attname = any(%s)
        and atttypid = 'pg_catalog.uuid'::regtype
        and not attisdropped
    group by attname
    having count(*) = %s
"""


def uuids(connection: Connection, tables: Collection[Table]) -> frozenset[str]:
    """Return the dimensions that are of type uuid in every table.

    A dimension that is a uuid in one table and text in another is read as text from both: in one
    column of bytes, a text of 16 characters would pass for a uuid.
    """
    names = sorted({table.quoted for table in tables})
    found = connection.execute(_UUIDS, (names, list(DIMENSIONS), len(names)))
    return frozenset(str(name) for (name,) in found)


def selected(as_bytes: Collection[str]) -> str:
    """Return the list of a SELECT that yields the dimensions, those in `as_bytes` as they are."""
    return ", ".join(name if name in as_bytes else f"{name}::text as {name}" for name in DIMENSIONS)


def schema(as_bytes: Collection[str]) -> str:
    """Return what Spark is told of the rows, as DDL."""
    kinds = (f"{name} {'binary' if name in as_bytes else 'string'}" for name in DIMENSIONS)
    return ", ".join(("source_table string", *kinds))


def labelled(batch: pa.RecordBatch, source_table: str, as_bytes: Collection[str]) -> pa.RecordBatch:
    """Return the batch as `schema` has it, each row under the table's name."""
    label = pa.array([source_table]).take(pa.array([0] * batch.num_rows, pa.int8()))
    # Arrow's uuid, where that type is known, and bytes of fixed size are none of Spark's types.
    columns = (
        column.cast(pa.binary()) if name in as_bytes else column
        for name, column in zip(DIMENSIONS, batch.columns, strict=True)
    )
    return pa.RecordBatch.from_arrays([label, *columns], names=["source_table", *DIMENSIONS])
