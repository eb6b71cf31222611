"""The SQL of the dimensions: uuids leave the server as 16 bytes, other types as the stream's text.

Turning uuids into text would be the server's largest cost per row. The bytes become text once for
each uuid that a task meets; whole numbers travel as they are too.

The stream's text of a value is what wal2json writes and `value #>> '{}'` of that JSON gives: the
type's output function, with the exceptions in `_WRITTEN`. A cast to text can differ: it strips the
blanks of char(n), appends /32 to an inet, and users can define their own casts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as compute

from counting.values import ROW_COUNT, Value, column_name
from waltally.tables import Table, literal, quoted

if TYPE_CHECKING:
    from waltally.database import Connection

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
        ),
        type.typtype = 'e'
    from pg_attribute as column_
    inner join pg_type as type on type.oid = column_.atttypid
    where
        column_.attrelid = %(table)s::regclass
        and column_.attname = any(%(names)s)
        and not column_.attisdropped
"""

_AS_IT_IS = "{0}::pg_catalog.text"
# Not `is not null`: a composite value is that only where all its fields are.
OUTPUT = "case pg_catalog.num_nulls({0}) when 0 then pg_catalog.concat({0}) end"
# Of 1e+20 the JSON parser keeps the digits.
_FLOAT = "case when {0} is not null then pg_catalog.concat(pg_catalog.concat({0})::numeric) end"
_WRITTEN = {
    "text": _AS_IT_IS,
    "varchar": _AS_IT_IS,
    "bool": _AS_IT_IS,
    "bytea": "pg_catalog.encode({0}, 'hex')",
    "float4": _FLOAT,
    "float8": _FLOAT,
}
"""By the type's name in pg_catalog, also where pg_cast has a cast."""


# Far enough outside the years that count, and near enough that no time zone leads to an error.
CONVERTIBLE = "{0} > '4000-01-01 BC' and {0} < '20000-01-01'"
_INSTANTS = {"timestamp": "({0} at time zone {column_timezone})", "timestamptz": "{0}"}
"""By the base type's name in pg_catalog."""


WHOLE_NUMBERS = ("int2", "int4", "int8")
_WITH_NOT_FINITE = ("numeric", "float4", "float8")

IS_SHORT = "{0} between -1e900 and 1e900 and scale({0}) <= 90"
"""Not NaN or infinite, and well below LONGEST_NUMBER digits."""


@dataclass(frozen=True)
class ColumnType:
    """What the catalog says of a column's type."""

    name: str | None
    """In pg_catalog; None for a type of another schema."""
    needs_output: bool
    """Whether a cast to text can differ from the type's output function."""
    base: str
    """The name of the type, or of what a domain is made of."""
    is_enum: bool = False

    @property
    def is_uuid(self) -> bool:
        """Whether it leaves the server as 16 bytes."""
        return self.name == "uuid"

    @property
    def may_be_infinite(self) -> bool:
        """Whether it has values that are null in the stream, being no number of JSON."""
        return self.name in _WITH_NOT_FINITE

    @property
    def output(self) -> str:
        """The SQL of the output function, with a place for the column."""
        return OUTPUT if self.needs_output else _AS_IT_IS


@dataclass(frozen=True)
class Selection:
    """How a query reads values of a table.

    With `grouped` the server counts: that is the select list of the groups, of which the first
    `keys` columns tell them apart, and `sql` is what is made of each group.
    """

    sql: str
    grouped: str = ""
    keys: int = 0

    def query(self, source: str) -> str:
        """Return the query of a FROM clause with its condition."""
        if not self.grouped:
            return f"select {self.sql} {source}"
        places = ", ".join(str(place + 1) for place in range(self.keys))
        # Without a key there would be a group of no rows.
        having = f"group by {places}" if self.keys else "having count(*) > 0"
        return f"select {self.sql} from (select {self.grouped} {source} {having}) as grouped"

    def row_count(self, batch: pa.RecordBatch) -> int:
        """Return how many rows of the table a batch stands for."""
        if not self.grouped:
            return int(batch.num_rows)
        return int(compute.sum(batch.column(ROW_COUNT)).as_py() or 0)


def rows(types: Mapping[str, ColumnType], values: Sequence[Value]) -> Selection:
    """Return how the values of `needed` are read row by row."""
    listed = [
        f"{sent(replace(value, columns=(column,)), types[column])} as {column_name(place, factor)}"
        for place, value in enumerate(values)
        for factor, column in enumerate(value.columns)
    ]
    # Of a fact that needs no column, rows are still counted.
    return Selection(", ".join(listed) or f"'' as {column_name(0)}")


def sent(value: Value, type_: ColumnType) -> str:
    """Return the SQL of a value of one column as it leaves the server."""
    (name,) = value.columns
    column = quoted(name)
    if value.kind in ("text", "number") and (type_.is_uuid or type_.name in WHOLE_NUMBERS):
        return column
    return spelled(value, type_)


def texts(connection: Connection, table: Table, names: Sequence[str]) -> dict[str, str]:
    """Return by column name the SQL of its value as the stream's text.

    Only for types whose text is the same in every session; `checks.tables` refuses the others.
    """
    found = types_of(connection, table, names)
    return {name: spelled(Value((name,)), type_) for name, type_ in found.items()}


def spelled(value: Value, type_: ColumnType) -> str:
    """Return the SQL of a value of one column as a text."""
    (name,) = value.columns
    column = quoted(name)
    if value.kind == "path":
        return _at_path(column, value.path, type_)
    if value.kind == "period":
        convertible, period = CONVERTIBLE.format(column), period_of(value, type_)
        return f"case when {convertible} then {period}::text else {OUTPUT.format(column)} end"
    if value.kind == "presence" and not type_.may_be_infinite:
        return f"case pg_catalog.num_nulls({column}) when 0 then '' end"
    return written(type_, column)


def written(type_: ColumnType, column: str) -> str:
    """Return the SQL of the stream's text of a column, or of another expression of its type."""
    return _WRITTEN.get(str(type_.name), type_.output).format(column)


# What a json column may hold and no text: an escape of U+0000, and one half of a surrogate pair.
_UNREADABLE = (
    r"pg_catalog.regexp_replace(pg_catalog.replace({0}::text, '\\', ''),"
    r" '\\u[dD][89abAB][0-9a-fA-F]{{2}}\\u[dD][c-fC-F][0-9a-fA-F]{{2}}', '', 'g')"
    r" ~ '\\u(0000|[dD][89a-fA-F])'"
)


def _at_path(column: str, path: Sequence[str], type_: ColumnType) -> str:
    """Return the SQL of the text at a path after `=`, or `!` where the document cannot be read."""
    found = f"{column} #>> array[{', '.join(map(literal, path))}]::pg_catalog.text[]"
    if type_.base == "json":
        return f"case when {_UNREADABLE.format(column)} then '!' else '=' || ({found}) end"
    return f"'=' || ({found})"


def period_of(value: Value, type_: ColumnType) -> str:
    """Return the SQL of the period that a CONVERTIBLE time is in, as cdc.period_of has it."""
    column, zone = quoted(value.columns[0]), literal(value.timezone)
    if type_.base == "date":
        local = f"{column}::timestamp"
    else:
        instant = _INSTANTS[type_.base].format(
            column, column_timezone=literal(value.column_timezone)
        )
        if value.unit == "hour":
            return f"date_trunc('hour', {instant}, {zone})"
        if value.unit.endswith("seconds"):
            midnight = f"date_trunc('day', {instant} at time zone {zone})"
            earlier = f"(({midnight} - interval '1 day') at time zone {zone} + interval '24 hours')"
            first = (
                f"least({midnight} at time zone {zone},"
                f" case when {earlier} at time zone {zone} = {midnight} then {earlier} end)"
            )
            return f"date_bin({literal(value.unit)}::interval, {instant}, {first})"
        local = f"({instant} at time zone {zone})"
    return f"date_trunc({literal(value.unit)}, {local})::date"


def types_of(connection: Connection, table: Table, names: Sequence[str]) -> dict[str, ColumnType]:
    """Return the types of the table's columns with these names."""
    parameters = {"table": table.quoted, "names": list(names)}
    return {name: ColumnType(*said) for name, *said in connection.ask(_TYPES, parameters)}
