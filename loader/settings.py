"""Settings: default < environment < flag, the same names everywhere."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from loader.errors import SettingError

DEFAULT_SLOT = "notify_dashboard_replication_slot"
DEFAULT_TABLES = "public.notifications,public.notification_history"
DEFAULT_SCHEMA = "cdc"

_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\s",.]+))\s*')

_DETECT_DEAD_PEER = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
    "connect_timeout": "15",
}


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
        return ".".join('"' + part.replace('"', '""') + '"' for part in (self.schema, self.name))


@dataclass(frozen=True)
class Settings:
    """What every command needs to know; `source` and `target` are libpq connection strings."""

    source: str = field(repr=False)
    target: str = field(repr=False)
    slot: str
    tables: tuple[Table, ...]
    schema: str

    @classmethod
    def of(cls, source: str, target: str, slot: str, tables: str, schema: str) -> Settings:
        """Check the settings as given and complete them; the target defaults to the source.

        An empty connection string leaves everything to libpq's PG* variables.
        Raises SettingError, naming the setting.
        """
        if not _SLOT.fullmatch(slot):
            raise SettingError(
                f"LOADER_SLOT is {slot!r}: a slot's name has lower-case letters, digits and _",
                "set LOADER_SLOT or --slot, for instance to " + DEFAULT_SLOT,
            )
        if not schema or len(schema.encode()) > 63:
            raise SettingError(
                f"LOADER_SCHEMA is {schema!r}: not a schema's name",
                "set LOADER_SCHEMA or --schema, for instance to " + DEFAULT_SCHEMA,
            )
        return cls(
            connection(source, "LOADER_SOURCE_DSN"),
            connection(target or source, "LOADER_TARGET_DSN"),
            slot,
            parse_tables(tables),
            schema,
        )


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
    if len(set(tables)) < len(tables):
        raise SettingError("LOADER_TABLES names a table twice", remedy)
    return tuple(tables)


def _unquote(part: re.Match[str]) -> str:
    quoted: str | None = part[1]
    plain: str = part[2]
    return quoted.replace('""', '"') if quoted is not None else plain


def connection(dsn: str, setting: str) -> str:
    """Return the libpq string or URL with what notices a dead peer added. Raises SettingError."""
    try:
        words = conninfo_to_dict(dsn)
    except Exception:
        # libpq's own message may quote a part of the string, and so a password.
        raise SettingError(
            f"{setting} is not a libpq connection string or URL",
            f"set {setting} like 'host=db.internal dbname=notify user=loader'",
        ) from None
    defaults: dict[str, str] = {**_DETECT_DEAD_PEER, "application_name": "waltally loader"}
    if "PGCONNECT_TIMEOUT" in os.environ:
        del defaults["connect_timeout"]
    return make_conninfo("", **{**defaults, **words})
