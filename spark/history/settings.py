"""Settings of the seed, under the loader's names: default < environment < flag."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from history import lsn
from history.errors import SettingError

DIMENSIONS = ("service_id", "template_id", "notification_type", "notification_status")

DEFAULT_SLOT = "notify_dashboard_replication_slot"
DEFAULT_TABLES = "public.notifications,public.notification_history"
DEFAULT_SCHEMA = "cdc"

_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_PART = r'(?:"(?:[^"]|"")+"|[^\s",.]+)'
_TABLE = re.compile(rf"\s*({_PART})\s*\.\s*({_PART})\s*(,|$)")


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


@dataclass(frozen=True)
class Settings:
    """What one seed needs to know; the connection strings may hold passwords.

    `timeout` is in seconds; `partitions` 0 lets the tables' size decide.
    """

    source: str = field(repr=False)
    target: str = field(repr=False)
    slot: str
    tables: tuple[Table, ...]
    schema: str
    partitions: int = 0
    timeout: float = 300.0
    parquet: str | None = None
    snapshot_lsn: int | None = None

    def __post_init__(self) -> None:
        if not _SLOT.fullmatch(self.slot):
            raise SettingError(
                f"LOADER_SLOT is {self.slot!r}: a slot's name has lower-case letters, digits and _",
                "set LOADER_SLOT or --slot, for instance to " + DEFAULT_SLOT,
            )
        if not self.schema or len(self.schema.encode()) > 63:
            raise SettingError(
                f"LOADER_SCHEMA is {self.schema!r}: not a schema's name",
                "set LOADER_SCHEMA or --schema, for instance to " + DEFAULT_SCHEMA,
            )
        if (self.parquet is None) != (self.snapshot_lsn is None):
            raise SettingError(
                "--parquet and --snapshot-lsn belong together",
                "give the path and the WAL position that the export was taken at",
            )


def parse_tables(text: str) -> tuple[Table, ...]:
    """Return the live and the archive table of a list like `public.a,"Odd".b`.

    Further tables are logged by the loader and not counted here. Raises SettingError.
    """
    tables: list[Table] = []
    position = 0
    while not tables or text[position - 1] == "," or position < len(text):
        match = _TABLE.match(text, position)
        if match is None:
            raise SettingError(
                f"LOADER_TABLES has no schema.table at {text[position:]!r}",
                "set LOADER_TABLES or --tables to schema.table,schema.table",
            )
        tables.append(Table(_unquote(match[1]), _unquote(match[2])))
        position = match.end()
    return tuple(tables[:2])


def _unquote(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


def parse_lsn(text: str | None) -> int | None:
    """Return the position of --snapshot-lsn. Raises SettingError."""
    try:
        return None if text is None else lsn.parse(text)
    except ValueError:
        raise SettingError(
            f"--snapshot-lsn is {text!r}: not a WAL position", "give one like 0/15368E0"
        ) from None
