"""Settings: default < environment < flag, the same names everywhere."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from loader.errors import SettingError
from loader.tables import COUNTED, Table, parse_tables

DEFAULT_SLOT = "notify_dashboard_replication_slot"
DEFAULT_TABLES = "public.notifications,public.notification_history"
DEFAULT_SCHEMA = "cdc"

_SLOT = re.compile(r"[a-z0-9_]{1,63}")

_DETECT_DEAD_PEER = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
    "connect_timeout": "15",
}


@dataclass(frozen=True)
class Settings:
    """What every command needs to know; `source` and `target` are libpq connection strings."""

    source: str = field(repr=False)
    target: str = field(repr=False)
    slot: str
    tables: tuple[Table, ...]
    schema: str

    @property
    def counted(self) -> tuple[Table, ...]:
        """The live table and its archive; further ones are only logged."""
        return self.tables[:COUNTED]

    @classmethod
    def of(cls, source: str, target: str, slot: str, tables: str, schema: str) -> Settings:
        """Check the settings as given and complete them; the target defaults to the source.

        An empty connection string leaves everything to libpq's PG* variables.
        Raises SettingError, naming the setting.
        """
        check_names(slot, schema)
        return cls(
            connection(source, "LOADER_SOURCE_DSN"),
            connection(target or source, "LOADER_TARGET_DSN"),
            slot,
            parse_tables(tables),
            schema,
        )


def check_names(slot: str, schema: str) -> None:
    """Raise SettingError where the slot or the schema cannot have such a name."""
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


def words(dsn: str, setting: str) -> dict[str, str]:
    """Return the parts of a libpq string or URL. Raises SettingError without quoting it."""
    try:
        return {key: str(value) for key, value in conninfo_to_dict(dsn).items()}
    except psycopg.Error:
        # libpq's own message may quote a part of the string, and so a password.
        raise SettingError(
            f"{setting} is not a libpq connection string or URL",
            f"set {setting} like 'host=db.internal dbname=notify user=loader'",
        ) from None


def connection(dsn: str, setting: str) -> str:
    """Return the libpq string or URL with what notices a dead peer added. Raises SettingError."""
    defaults: dict[str, str] = {**_DETECT_DEAD_PEER, "application_name": "waltally loader"}
    if "PGCONNECT_TIMEOUT" in os.environ:
        del defaults["connect_timeout"]
    return make_conninfo("", **{**defaults, **words(dsn, setting)})
