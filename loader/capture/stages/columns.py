"""Keeps the named columns of each change and lets nothing else reach the staging tables.

The result has the plugin's own form: the action first, columns before identity, no blanks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET
from psycopg2.extras import Json

from loader.capture.stages import Stage
from loader.capture.wal2json import Change, read_row, write_row
from loader.staging.logged_tables import Kept
from loader.staging.records import Registration
from waltally.database import Connection
from waltally.errors import SettingError
from waltally.models import Model, needed_columns
from waltally.tables import Table

KeptColumns = Mapping[tuple[str, str], frozenset[str]]
"""By schema and table, the columns that are kept."""

_ACTIONS = (b'{"action":"I"', b'{"action":"U"', b'{"action":"D"', b'{"action":"T"')
_NOTE = b'"note":"withheld by --columns: not the form of wal2json"}'

# The bytes of names come in the source's encoding, as they do in a change.
_QUERY = """
select
    n.nspname::text,
    c.relname::text,
    a.attname::text,
    exists (
        select from pg_index as i
        where i.indrelid = c.oid and a.attnum = any(i.indkey)
        and (i.indisprimary or (i.indisreplident and c.relreplident = 'i'))
    ),
    convert_to(n.nspname::text, getdatabaseencoding()),
    convert_to(c.relname::text, getdatabaseencoding()),
    convert_to(a.attname::text, getdatabaseencoding())
from jsonb_to_recordset(%s) as followed (schema text, name text)
inner join pg_namespace as n on n.nspname = followed.schema
inner join pg_class as c on c.relnamespace = n.oid and c.relname = followed.name
inner join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
"""


class SourceColumn(NamedTuple):
    """A column of a source table; `spelled_…` are the names as bytes of a change, in Latin-1."""

    table: Table
    name: str
    is_key: bool
    spelled_schema: str
    spelled_table: str
    spelled_name: str


def column_stage(
    source: Connection, registered: Registration, named: tuple[str, ...], encoding: str
) -> tuple[Kept, Stage | None]:
    """Return the kept columns of each table, and the stage that removes all others.

    Without `named` all columns are kept, and there is no stage. `encoding` is the source's. Raises
    SettingError where no table has a column of this name.
    """
    if not named:
        return dict.fromkeys(registered.tables), None
    columns = _read_columns(source, registered.tables, encoding)
    chosen = columns_to_keep(columns, named, registered.models)
    spelled: dict[tuple[str, str], set[str]] = {}
    kept: dict[Table, set[str]] = {table: set() for table in registered.tables}
    for column in columns:
        of_table = spelled.setdefault((column.spelled_schema, column.spelled_table), set())
        if column in chosen:
            of_table.add(column.spelled_name)
            kept[column.table].add(column.name)
    keep = column_filter({table: frozenset(names) for table, names in spelled.items()})
    keep = keep if encoding == "UTF8" else _bytewise(keep)
    return (
        {table: frozenset(names) for table, names in kept.items()},
        lambda messages: [keep(m) if type(m) is bytes else m for m in messages],
    )


def _read_columns(source: Connection, tables: Sequence[Table], encoding: str) -> list[SourceColumn]:
    listed = [{"schema": table.schema, "name": table.name} for table in tables]
    codec = "utf-8" if encoding == "UTF8" else "latin-1"
    return [
        SourceColumn(Table(schema, table), column, is_key, *(str(name, codec) for name in spelled))
        for schema, table, column, is_key, *spelled in source.ask(_QUERY, (Json(listed),))
    ]


def columns_to_keep(
    columns: Sequence[SourceColumn], named: tuple[str, ...], models: Sequence[Model]
) -> frozenset[SourceColumn]:
    """Return the columns to keep: those named, those that a model needs, and the keys.

    Raises SettingError where no table has a column of this name.
    """
    unknown = sorted(set(named) - {column.name for column in columns})
    if unknown:
        raise SettingError(
            f"LOADER_COLUMNS names {', '.join(unknown)}, which no followed table has",
            "set LOADER_COLUMNS or --columns to columns of the tables; case counts",
        )
    needed = {column.table: set(needed_columns(models, column.table)) for column in columns}
    return frozenset(
        column
        for column in columns
        if column.is_key or column.name in named or column.name in needed[column.table]
    )


def column_filter(names: KeptColumns) -> Callable[[Change], Change]:
    """Return a function that removes all other columns from a change.

    A table that is not in `names` keeps no column. A change in another form than the plugin's keeps
    only its action: the models then reject it, and nothing leaks.
    """
    nothing: frozenset[str] = frozenset()

    def keep(change: Change) -> Change:
        try:
            row = read_row(change)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _stub(change)
        of_table = names.get((row.schema, row.table), nothing)
        if row.columns is not UNSET:
            row.columns = [column for column in row.columns if column.name in of_table]
        if row.identity is not UNSET:
            row.identity = [column for column in row.identity if column.name in of_table]
        return write_row(row)

    return keep


def _stub(change: Change) -> Change:
    action = change[:13]
    return (action + b"," if action in _ACTIONS else b"{") + _NOTE


def _bytewise(keep: Callable[[Change], Change]) -> Callable[[Change], Change]:
    """Apply `keep` to text in another encoding than UTF-8, byte by byte.

    In every server encoding the bytes of ASCII stand for ASCII characters only, so JSON has the
    same structure.
    """
    return lambda change: keep(change.decode("latin-1").encode()).decode().encode("latin-1")
