"""Settings: default < environment < flag, the same names everywhere."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from waltally.errors import SettingError
from waltally.escapes import escaped
from waltally.tables import parse_names

DEFAULT_SLOT = "waltally"
DEFAULT_SCHEMA = "cdc"
DEFAULT_DBT_SCHEMA = "analytics"

_PORTS = re.compile(r"[0-9, ]*")
_SLOT = re.compile(r"[a-z0-9_]{1,63}")

_DETECT_DEAD_PEER = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
    "connect_timeout": "15",
}


@dataclass(frozen=True)
class SlotSettings:
    """Where a slot's log is; the connection string may hold a password. Raises SettingError."""

    target: str = field(repr=False)
    slot: str
    schema: str

    def __post_init__(self) -> None:
        check_names(self.slot, self.schema)


@dataclass(frozen=True)
class Settings(SlotSettings):
    """The settings of every command; `source` and `target` are libpq connection strings."""

    source: str = field(repr=False)
    columns: tuple[str, ...] = ()
    """Columns to keep beside what the models need and the keys; empty keeps every column."""

    @classmethod
    def of(cls, source: str, target: str, slot: str, schema: str, columns: str = "") -> Settings:
        """Check the settings as given and complete them; the target defaults to the source.

        An empty connection string leaves everything to libpq's PG* variables.
        Raises SettingError, naming the setting.
        """
        return cls(
            complete_conninfo(target or source, "LOADER_TARGET_DSN"),
            slot,
            schema,
            complete_conninfo(source, "LOADER_SOURCE_DSN"),
            parse_names(columns, "LOADER_COLUMNS", "--columns"),
        )

    @property
    def environment(self) -> dict[str, str]:
        """The variables that give another command the same settings."""
        return {
            "LOADER_SOURCE_DSN": self.source,
            "LOADER_TARGET_DSN": self.target,
            "LOADER_SLOT": self.slot,
            "LOADER_SCHEMA": self.schema,
        }


def check_names(slot: str, schema: str) -> None:
    """Raise SettingError where the slot or the schema cannot have such a name."""
    if not _SLOT.fullmatch(slot):
        raise SettingError(
            f"LOADER_SLOT is {slot!r}: a slot's name has lower-case letters, digits and _",
            "set LOADER_SLOT or --slot, for instance to " + DEFAULT_SLOT,
        )
    # In a statement with parameters, the driver would take a % for one of them.
    name = jobs_schema(schema)
    is_odd = "%" in schema or schema.startswith("pg_") or escaped(schema) != schema
    if not schema or len(name.encode()) > 63 or is_odd:
        raise SettingError(
            f"LOADER_SCHEMA is {schema!r}: the schema's name has 1 to 58 bytes, no % and no "
            "control character, and does not begin with pg_",
            "set LOADER_SCHEMA or --schema, for instance to " + DEFAULT_SCHEMA,
        )


def jobs_schema(schema: str) -> str:
    """Return the schema in which Spark's jobs make tables of their own.

    Routines search the staging schema for functions, so nobody but its owner may create there.
    """
    return f"{schema}_jobs"


def parse_conninfo(dsn: str, setting: str) -> dict[str, str]:
    """Return the parts of a libpq string or URL. Raises SettingError without quoting it."""
    try:
        parts = {key: str(value) for key, value in conninfo_to_dict(dsn).items()}
        # In a URL a password with a bare / is read as a port, which libpq would quote later.
        if not _PORTS.fullmatch(parts.get("port", "")):
            raise psycopg.ProgrammingError("the port is not a number")
    except psycopg.Error:
        # libpq's own message may quote a part of the string, and so a password.
        raise SettingError(
            f"{setting} is not a libpq connection string or URL",
            f"set {setting} like 'host=db.internal dbname=notify user=loader'; in a URL write "
            "odd characters of a password as %2F and the like",
        ) from None
    return parts


def complete_conninfo(dsn: str, setting: str, work: str = "loader") -> str:
    """Return the connection string with keepalives and timeouts added. Raises SettingError.

    The session names itself after `work`.
    """
    defaults: dict[str, str] = {**_DETECT_DEAD_PEER, "application_name": f"waltally {work}"}
    if "PGCONNECT_TIMEOUT" in os.environ:
        del defaults["connect_timeout"]
    return make_conninfo("", **{**defaults, **parse_conninfo(dsn, setting)})
