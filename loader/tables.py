"""The source tables by name, and the columns that a count belongs to. Pure: executors import it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from loader.errors import SettingError

DIMENSIONS = ("service_id", "template_id", "notification_type", "notification_status")
"""The columns of a counted table whose values a count belongs to."""

COUNTED = 2
"""The first table is live and the second is its archive; further ones are only logged."""

_PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\s",.]+))\s*')


def quoted(name: str) -> str:
    """Return the identifier as SQL wants it."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Table:
    """A source table by its schema and name."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        """The name as SQL wants it."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"


def parse_tables(text: str) -> tuple[Table, ...]:
    """Return the tables of a list like `public.a,"Odd".b`. Raises SettingError."""
    remedy = "set LOADER_TABLES or --tables to schema.table,schema.table"
    tables = []
    position = 0
    while True:
        schema = _PART.match(text, position)
        if schema is None or text[schema.end() : schema.end() + 1] != ".":
            raise SettingError(f"LOADER_TABLES has no schema.table at {text[position:]!r}", remedy)
        name = _PART.match(text, schema.end() + 1)
        if name is None:
            raise SettingError(f"LOADER_TABLES has no table at {text[position:]!r}", remedy)
        tables.append(Table(_unquote(schema), _unquote(name)))
        position = name.end()
        if position == len(text):
            break
        if text[position] != ",":
            raise SettingError(f"LOADER_TABLES is not a list at {text[position:]!r}", remedy)
        position += 1
    # As text, which is how the change log and the seed tell them apart.
    if len(set(map(str, tables))) < len(tables):
        raise SettingError("LOADER_TABLES names a table twice", remedy)
    return tuple(tables)


def _unquote(part: re.Match[str]) -> str:
    in_quotes: str | None = part[1]
    plain: str = part[2]
    return in_quotes.replace('""', '"') if in_quotes is not None else plain
