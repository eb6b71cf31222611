"""A table's changes as rows: its columns by their types, in place of wal2json's text.

Executors make the rows from the change log's payloads, one range after the other.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from waltally.errors import SettingError
from waltally.tables import Table, parse_table
from waltally_jobs.common import messages
from waltally_jobs.common.connections import connect
from waltally_jobs.common.messages import NO_OLD_ROW, Change, Image, text_of

_MOMENT = pa.timestamp("us", "UTC")
_OF_THE_CHANGE = {
    "commit_lsn": "bigint",
    "ordinal": "bigint",
    "xid": "bigint",
    "committed_at": "timestamp",
    "op": "string",
}
_MISSING = "missing"
_OTHERS = "other_columns"
"""The values of columns that the rows lack, as the stream prints them, by the columns' names."""
_MAP, _PAIRS = "map<string,string>", pa.map_(pa.string(), pa.string())
_Others = list[tuple[str, str | None]]
_OLD = "old"
_OWN = (*_OF_THE_CHANGE, _MISSING, _OTHERS, _OLD)

_OPS = {"I": "insert", "U": "update", "D": "delete", "T": "truncate"}

_ARROW = {
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": _MOMENT,
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
    "string": pa.string(),
}
"""By Spark's type; decimals beside them."""

_SPARK = {
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "float4": "float",
    "float8": "double",
    "bool": "boolean",
    "date": "date",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
    "bytea": "binary",
}
"""By PostgreSQL's type. Of any other type a column is a string, as the stream prints it."""

_MOST_DIGITS = 38
"""Of Spark's decimal. A numeric without a bound has more: it is a string, which is exact."""

_COLUMNS = """
    with recursive bases (ordinal, name, type, modifier) as (
        select attnum, attname::text, atttypid, atttypmod
        from pg_attribute
        where attrelid = to_regclass(%(table)s) and attnum > 0 and not attisdropped
        union all
        select bases.ordinal, bases.name, of_domain.typbasetype, of_domain.typtypmod
        from bases
        inner join pg_type as of_domain on of_domain.oid = bases.type and of_domain.typtype = 'd'
    )

    select bases.name, base.typname::text, bases.modifier
    from bases
    inner join pg_type as base on base.oid = bases.type and base.typtype <> 'd'
    order by bases.ordinal
"""


def spark_type(name: str, modifier: int) -> str:
    """Return Spark's type of a column of PostgreSQL's."""
    if name == "numeric" and modifier >= 0:
        # As the server packs them.
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
        if precision <= _MOST_DIGITS and scale <= precision:
            return f"decimal({precision},{scale})"
    return _SPARK.get(name, "string")


def _columns(table: Table, source: str) -> dict[str, str]:
    """Return Spark's types of the table's columns, by their names. Raises SettingError."""
    with contextlib.closing(connect(source, "source", "data source")) as session:
        found = session.ask(_COLUMNS, {"table": table.quoted})
    columns = {name: spark_type(type_, modifier) for name, type_, modifier in found}
    if not columns:
        raise SettingError(
            f"there is no table {table} in the application's database",
            "let the option source name the application's database, or give the columns and their"
            " types yourself, as in spark.read.schema('op string, id bigint')",
        )
    names = Counter(name.lower() for name in (*_OWN, *columns))
    if twins := [name for name in columns if names[name.lower()] > 1]:
        raise SettingError(
            f"{table} has a column {twins[0]}, and the change or another column has that name too,"
            " perhaps in another case: to Spark they are one",
            "give the columns that you need with spark.read.schema(…)",
        )
    return columns


class TableChanged(Exception):
    """The table has a column that a stream's rows lack, or of another type."""


def schema(table: str, source: str) -> str:
    """Return the columns of a table's changes for Spark. Raises SettingError."""
    columns = _columns(parse_table(table), source)
    own = [f"{name} {_written(kind)}" for name, kind in _OF_THE_CHANGE.items()]
    new = [f"{_quoted(name)} {_written(kind)}" for name, kind in columns.items()]
    old = "".join(f"{_quoted(name)}: {_written(kind)}, " for name, kind in columns.items())
    before = f"{_OLD} struct<{old}{_OTHERS}: {_MAP}>"
    return ", ".join([*own, *new, before, f"{_MISSING} array<string>", f"{_OTHERS} {_MAP}"])


def _written(kind: str) -> str:
    # What `timestamp` means is a setting of the session, spark.sql.timestampType.
    return "timestamp_ltz" if kind == "timestamp" else kind


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


@dataclass(frozen=True)
class TableRows:
    """Makes rows of one table's changes: the columns of a Spark schema, by their names."""

    table: Table
    names: tuple[str, ...]
    """The result's columns, in Spark's order."""
    columns: Mapping[str, pa.DataType]
    old: Mapping[str, pa.DataType]

    @classmethod
    def of(cls, table: str, wanted: StructType) -> TableRows:
        """Return what makes rows with these columns. Raises SettingError for a type of no use."""
        given = {field.name: field.dataType.simpleString() for field in wanted.fields}
        old: dict[str, pa.DataType] = {}
        if _OLD in given:
            inner = wanted[_OLD].dataType
            if not isinstance(inner, StructType):
                raise SettingError(f"the column {_OLD} is {given[_OLD]}", "make it a struct")
            kinds = {each.name: each.dataType.simpleString() for each in inner.fields}
            old = {n: _PAIRS if n == _OTHERS else _arrow(kind) for n, kind in kinds.items()}
        for name, kind in {**_OF_THE_CHANGE, _OTHERS: _MAP}.items():
            if given.get(name, kind) != kind:
                raise SettingError(
                    f"the column {name} is {given[name]}", f"make it {_written(kind)}"
                )
        columns = {name: _arrow(kind) for name, kind in given.items() if name not in _OWN}
        return cls(parse_table(table), tuple(given), columns, old)

    def require_whole(self, source: str) -> None:
        """Raise TableChanged where the table has a column that the rows lack, or of another type.

        Asked after the position of a batch's end: the values of its changes are in its rows then,
        whatever DDL comes later. A column that was dropped is null from then on; what rows that
        began after that lack is in `other_columns`.
        """
        now = _columns(self.table, source)
        if new := [name for name, kind in now.items() if self.columns.get(name) != _arrow(kind)]:
            raise TableChanged(
                f"{self.table} has {', '.join(new)}, which the stream began without, or with"
                " another type: start it again"
            )

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch of the change log, in its order."""
        batch = batch.filter(self._may_concern(batch))
        names = {name: ordinal for ordinal, name in enumerate({**self.columns, **self.old})}
        read = messages.reader([(self.table, list(names))])
        actions = batch.column("action").to_pylist()
        payloads = batch.column("payload").cast(pa.binary()).to_pylist()
        found = [
            (place, change)
            for place, each in enumerate(zip(actions, payloads, strict=True))
            if (change := read(*each)) is not None
        ]
        kept = batch.take(pa.array([place for place, _ in found], pa.int64()))
        changes = [change for _, change in found]
        others = [self._others(change, payloads[place]) for place, change in found]
        ops = [
            _OPS.get(each.action) if each.problem in (None, NO_OLD_ROW) else None
            for each in changes
        ]
        missing: list[list[str]] = [[] for _ in changes]
        columns = {
            "commit_lsn": kept.column("commit_lsn"),
            "ordinal": kept.column("ordinal"),
            "xid": kept.column("xid"),
            "committed_at": kept.column("committed_at"),
            "op": pa.array(ops, pa.string()),
        }
        for name, kind in self.columns.items():
            values = [_value(each.new, names[name]) for each in changes]
            for lacking, op, value in zip(missing, ops, values, strict=True):
                if value is None and op in ("insert", "update", None):
                    lacking.append(name)
            columns[name] = _column(kind, values, partial(_note, missing, name))
        if _OLD in self.names:
            before = {
                name: pa.array([own for _, own in others], kind)
                if name == _OTHERS
                else _column(kind, [_value(each.old, names[name]) for each in changes])
                for name, kind in self.old.items()
            }
            absent = pa.array([each.old is None for each in changes], pa.bool_())
            columns[_OLD] = pa.StructArray.from_arrays(
                list(before.values()), names=list(before), mask=absent
            )
        columns[_MISSING] = pa.array(missing, pa.list_(pa.string()))
        columns[_OTHERS] = pa.array([own for own, _ in others], _PAIRS)
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self.names], names=list(self.names)
        )

    def _others(self, change: Change, payload: bytes) -> tuple[_Others | None, _Others | None]:
        """Return the values of columns that the rows lack, of the new row and of the old one."""
        if change.problem not in (None, NO_OLD_ROW):
            return None, None
        message = messages.decode(payload)
        images = (message.columns, self.columns), (message.identity or [], self.old)
        new, old = (
            [(each.name, text_of(bytes(each.value))) for each in image if each.name not in known]
            for image, known in images
        )
        return new or None, old or None

    def _may_concern(self, batch: pa.RecordBatch) -> pa.Array:
        """Return which changes can be of the table, without reading their JSON."""
        action = batch.column("action")
        is_row = pc.is_in(action, pa.array([*_OPS], action.type))
        name = msgspec.json.encode(self.table.name).decode()
        if name == f'"{self.table.name}"':
            is_row = pc.and_(is_row, pc.match_substring(batch.column("payload"), name))
        return pc.or_(is_row, pc.is_null(action))


def _arrow(kind: str) -> pa.DataType:
    if kind in _ARROW:
        return _ARROW[kind]
    if kind.startswith("decimal("):
        precision, scale = map(int, kind.removeprefix("decimal(").rstrip(")").split(","))
        return pa.decimal128(precision, scale)
    raise SettingError(
        f"a column cannot be {kind}",
        f"use one of {', '.join(_ARROW)}, decimal(p,s); string takes any value as it came",
    )


def _value(image: Image | None, place: int) -> bytes | None:
    return None if image is None else image[place]


def _note(missing: Sequence[list[str]], name: str, place: int) -> None:
    missing[place].append(name)


def _column(
    kind: pa.DataType,
    values: Sequence[bytes | None],
    lost: Callable[[int], None] = lambda place: None,
) -> pa.Array:
    """Return the JSON of values as the type has them; `lost` hears where it has none."""
    texts = [None if value is None else text_of(value) for value in values]
    convert = _bytes if kind == pa.binary() else partial(_cast, kind)
    try:
        return convert(texts)
    except (pa.ArrowInvalid, ValueError):
        return pa.concat_arrays(list(_one_by_one(kind, convert, texts, lost)))


def _one_by_one(
    kind: pa.DataType,
    convert: Callable[[Sequence[str | None]], pa.Array],
    texts: Sequence[str | None],
    lost: Callable[[int], None],
) -> Iterator[pa.Array]:
    for place, text in enumerate(texts):
        try:
            yield convert([text])
        except (pa.ArrowInvalid, ValueError):
            lost(place)
            yield pa.nulls(1, kind)


def _cast(kind: pa.DataType, texts: Sequence[str | None]) -> pa.Array:
    return pa.array(texts, pa.string()).cast(kind)


def _bytes(texts: Sequence[str | None]) -> pa.Array:
    read = (None if text is None else bytes.fromhex(text.removeprefix("\\x")) for text in texts)
    return pa.array(list(read), pa.binary())
