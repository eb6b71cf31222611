"""The SQL of the dimensions: uuids leave the server as 16 bytes, other types as the stream's text.

Turning uuids into text would be the server's largest cost per row. The bytes become text after
counting, once per group.

The stream's text of a value is what wal2json writes and `value #>> '{}'` of that JSON gives: the
type's output function, with the exceptions in `_WRITTEN`. A cast to text can differ: it strips the
blanks of char(n), appends /32 to an inet, and users can define their own casts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
from common.connections import Connection

from waltally.tables import DIMENSIONS, Table, quoted

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

# A cast to text is the output function unless pg_cast has a function or a relabelling for it.
# A domain has its base type's cast, but the plugin prints it by its own output function.
_TYPES = """
    select
        column_.attname,
        case
            when type.typnamespace = 'pg_catalog'::regnamespace then type.typname
        end,
        type.typtype = 'd' or exists (
            select from pg_cast
            where
                castsource = type.oid
                and casttarget = 'pg_catalog.text'::regtype
                and castmethod <> 'i'
        )
    from pg_attribute as column_
    inner join pg_type as type on type.oid = column_.atttypid
    where
        column_.attrelid = %(table)s::regclass
        and column_.attname = any(%(names)s)
        and not column_.attisdropped
"""

_AS_IT_IS = "{0}::pg_catalog.text"
# Not `is not null`: a composite value is that only where all its fields are.
_OUTPUT = "case pg_catalog.num_nulls({0}) when 0 then pg_catalog.concat({0}) end"
_NUMBER = (
    "nullif(nullif(nullif(nullif(pg_catalog.concat({0}), ''), 'NaN'), 'Infinity'), '-Infinity')"
)
_FLOAT = f"nullif(pg_catalog.concat(({_NUMBER})::numeric), '')"
_WRITTEN = {
    "text": _AS_IT_IS,
    "varchar": _AS_IT_IS,
    "bool": _AS_IT_IS,
    "bytea": "pg_catalog.encode({0}, 'hex')",
    # JSON has no such numbers: the plugin writes null. Of 1e+20 the JSON parser keeps the digits.
    "numeric": _NUMBER,
    "float4": _FLOAT,
    "float8": _FLOAT,
}
"""By the type's name in pg_catalog, also where pg_cast has a cast."""


def uuids(connection: Connection, tables: Collection[Table]) -> frozenset[str]:
    """Return the dimensions that are of type uuid in every table.

    A dimension that is a uuid in one table and text in the other is read as text from both: in one
    column of bytes, a text of 16 characters could not be told from a uuid.
    """
    names = sorted({table.quoted for table in tables})
    found = connection.execute(_UUIDS, (names, list(DIMENSIONS), len(names)))
    return frozenset(str(name) for (name,) in found)


def texts(
    connection: Connection, table: Table, names: Sequence[str] = DIMENSIONS
) -> dict[str, str]:
    """Return by column name the SQL of its value as the stream's text.

    Only for types whose text is the same in every session; `checks.tables` refuses the others.
    """
    found = {}
    parameters = {"table": table.quoted, "names": list(names)}
    for name, type_, needs_output in connection.execute(_TYPES, parameters):
        written = _WRITTEN.get(str(type_), _OUTPUT if needs_output else _AS_IT_IS)
        found[str(name)] = written.format(quoted(str(name)))
    return found


def selections(
    connection: Connection, tables: Collection[Table], as_bytes: Collection[str]
) -> dict[Table, str]:
    """Return the select list of each table's dimensions.

    Those in `as_bytes` are selected as they are, the others as the stream's text.
    """
    return {table: selected(texts(connection, table), as_bytes) for table in tables}


def selected(written: Mapping[str, str], as_bytes: Collection[str]) -> str:
    """Return the select list: the dimensions in `as_bytes` as they are, others as `written`."""
    return ", ".join(
        name if name in as_bytes else f"{written[name]} as {name}" for name in DIMENSIONS
    )


def schema(as_bytes: Collection[str]) -> str:
    """Return the columns of the rows as DDL for Spark."""
    kinds = (f"{name} {'binary' if name in as_bytes else 'string'}" for name in DIMENSIONS)
    return ", ".join(("source_table string", *kinds))


def labelled(batch: pa.RecordBatch, source_table: str, as_bytes: Collection[str]) -> pa.RecordBatch:
    """Return the batch with the columns of `schema`, the table's name in each row."""
    label = pa.array([source_table]).take(pa.array([0] * batch.num_rows, pa.int8()))
    # Spark has neither Arrow's uuid type nor its bytes of fixed size.
    columns = (
        column.cast(pa.binary()) if name in as_bytes else column
        for name, column in zip(DIMENSIONS, batch.columns, strict=True)
    )
    return pa.RecordBatch.from_arrays([label, *columns], names=["source_table", *DIMENSIONS])
