"""Source tables by name, and how SQL spells names. Pure: executors import it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from waltally.errors import SettingError

_PLAIN = re.compile(r'[^\s",.]+')
_PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\s",.]+))\s*')
_NAME = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\s",](?:[^",]*[^\s",])?))\s*(,|$)')


def quoted(name: str) -> str:
    """Return the identifier as SQL wants it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return the text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class Table:
    """A source table by its schema and name."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def is_of_the_server(self) -> bool:
        """Whether it is in a schema of PostgreSQL's own."""
        return self.schema.startswith("pg_") or self.schema == "information_schema"

    @property
    def quoted(self) -> str:
        """The name as SQL wants it."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"


def parse_table(text: str) -> Table:
    """Return the table of a name like `public.a`. Raises SettingError."""
    schema = _PART.match(text)
    dot = schema.end() if schema else 0
    name = _PART.match(text, dot + 1) if text[dot : dot + 1] == "." else None
    if schema is None or name is None or name.end() < len(text):
        raise SettingError(f"{text!r} is no table", 'name it schema.table, or schema."Odd Name"')
    return Table(_unquote(schema), _unquote(name))


def format_table(table: Table) -> str:
    """Return the table as `parse_table` takes it."""
    return f"{_written(table.schema)}.{_written(table.name)}"


def parse_names(text: str, setting: str, flag: str) -> tuple[str, ...]:
    """Return the names of a list like `id,"Odd, name"`, case kept. Raises SettingError."""
    names: list[str] = []
    position = 0
    while text.strip():
        name = _NAME.match(text, position)
        if name is None:
            raise SettingError(
                f"{setting} is not a list of columns at {text[position:]!r}",
                f'set {setting} or {flag} to column,column; odd names like "this, one"',
            )
        names.append(_unquote(name))
        position = name.end()
        if not name[3]:
            break
    return tuple(names)


def format_names(names: Iterable[str]) -> str:
    """Return the names as `parse_names` takes them."""
    return ", ".join(map(_written, names))


def _written(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)


def _unquote(part: re.Match[str]) -> str:
    in_quotes: str | None = part[1]
    plain: str = part[2]
    return in_quotes.replace('""', '"') if in_quotes is not None else plain
