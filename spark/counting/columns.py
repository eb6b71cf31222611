"""The SQL of the dimensions: uuids leave the server as 16 bytes, other types as the stream's text.

Turning uuids into text would be the server's largest cost per row. The bytes become text after
counting, once per group.

The stream's text of a value is what wal2json writes and `value #>> '{}'` of that JSON gives: the
type's output function, with the exceptions in `_WRITTEN`. A cast to text can differ: it strips the
blanks of char(n), appends /32 to an inet, and users can define their own casts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from common.connections import Connection

from counting.values import Value, column_name
from waltally.tables import Table, literal, quoted

# A cast to text is the output function unless pg_cast has a function or a relabelling for it.
# A domain has its base type's cast, but the plugin prints it by its own output function.
_TYPES = """
    with recursive base (attname, type) as (
        select attname, atttypid
        from pg_attribute
        where
            attrelid = %(table)s::regclass
            and attname = any(%(names)s)
            and not attisdropped
        union all
        select base.attname, type.typbasetype
        from base
        inner join pg_type as type on type.oid = base.type and type.typtype = 'd'
    )

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
        ),
        (
            select of_domain.typname
            from base
            inner join pg_type as of_domain on of_domain.oid = base.type
            where base.attname = column_.attname and of_domain.typtype <> 'd'
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


# Far enough outside the years that count, and near enough that no time zone leads to an error.
_CONVERTIBLE = "{0} > '4000-01-01 BC' and {0} < '20000-01-01'"
_LOCAL_TIMES = {
    "date": "{0}::timestamp",
    "timestamp": "({0} at time zone {column_timezone}) at time zone {timezone}",
    "timestamptz": "{0} at time zone {timezone}",
}
"""By the base type's name in pg_catalog."""


@dataclass(frozen=True)
class _Type:
    name: str | None
    """In pg_catalog; None for a type of another schema."""
    needs_output: bool
    base: str

    @property
    def output(self) -> str:
        return _OUTPUT if self.needs_output else _AS_IT_IS


@dataclass(frozen=True)
class Selection:
    """The select list of a table's values; those in `as_bytes` are uuids, all others texts."""

    sql: str
    as_bytes: tuple[bool, ...]

    @property
    def schema(self) -> str:
        """The columns of the rows as DDL for Spark."""
        kinds = ("binary" if is_uuid else "string" for is_uuid in self.as_bytes)
        names = map(column_name, range(len(self.as_bytes)))
        return ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))

    def shape(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the columns of `schema`."""
        # Spark has neither Arrow's uuid type nor its bytes of fixed size.
        columns = [
            column.cast(pa.binary()) if is_uuid else column
            for column, is_uuid in zip(batch.columns, self.as_bytes, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def selection(connection: Connection, table: Table, values: Sequence[Value]) -> Selection:
    """Return how the values of `needed` are read from the table.

    Only for columns that `checks.tables` does not refuse.
    """
    types = _types(connection, table, sorted({each.column for each in values}))
    as_bytes = tuple(
        value.kind == "text" and types[value.column].name == "uuid" for value in values
    )
    listed = [
        f"{quoted(value.column) if is_uuid else _sql(value, types[value.column])}"
        f" as {column_name(place)}"
        for place, (value, is_uuid) in enumerate(zip(values, as_bytes, strict=True))
    ]
    # Of a fact that needs no column, rows are still counted.
    return Selection(", ".join(listed or [f"'' as {column_name(0)}"]), as_bytes or (False,))


def texts(connection: Connection, table: Table, names: Sequence[str]) -> dict[str, str]:
    """Return by column name the SQL of its value as the stream's text.

    Only for types whose text is the same in every session; `checks.tables` refuses the others.
    """
    found = _types(connection, table, names)
    return {name: _sql(Value(name), type_) for name, type_ in found.items()}


def _sql(value: Value, type_: _Type) -> str:
    column = quoted(value.column)
    if value.kind == "text":
        return _WRITTEN.get(str(type_.name), type_.output).format(column)
    if value.kind == "number":
        return type_.output.format(column)
    local = _LOCAL_TIMES[type_.base].format(
        column,
        timezone=literal(value.timezone),
        column_timezone=literal(value.column_timezone),
    )
    time = f"date_trunc('month', {local})" if value.kind == "month_of" else f"({local})"
    return (
        f"case when {_CONVERTIBLE.format(column)} then {time}::date::text"
        f" else {_OUTPUT.format(column)} end"
    )


def _types(connection: Connection, table: Table, names: Sequence[str]) -> dict[str, _Type]:
    parameters = {"table": table.quoted, "names": list(names)}
    return {
        str(name): _Type(None if type_ is None else str(type_), needs_output is True, str(base))
        for name, type_, needs_output, base in connection.execute(_TYPES, parameters)
    }
