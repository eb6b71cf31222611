"""The options of the format `waltally`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from waltally.errors import SettingError
from waltally.options import parse_lsn
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT, SlotSettings, parse_conninfo

_NAMES = ["target", "slot", "schema", "begin", "end", "maxChanges", "reader", "table", "source"]


@dataclass(frozen=True)
class Options(SlotSettings):
    """Which changes are read, and from where.

    `begin` and `end` are positions, None for the first and the last change that is there.
    `max_changes` bounds a batch of a stream, and `reader` is the name that it has in
    reader_position. With `table` the changes of that table are rows of it, whose types `source`
    says.
    """

    begin: int | None
    end: int | None
    max_changes: int | None
    reader: str | None
    table: str | None
    source: str

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Options:
        """Return the options as Spark gives them, whose names have no case."""
        named = {name.lower(): value for name, value in given.items()}
        known = {name.lower() for name in _NAMES}
        if unknown := sorted(set(named) - known):
            raise SettingError(
                f"the format waltally has no option {', '.join(unknown)}; it has"
                f" {', '.join(_NAMES)}",
                "docs/spark.md says what each is",
            )
        for option in ("target", "source"):
            dsn = named.get(option, "")
            if any("password" in word for word in parse_conninfo(dsn, option)):
                raise SettingError(
                    f"the option {option} has a password, and Spark shows options in its UI",
                    "leave it out, and give the driver PGPASSWORD or a password file",
                )
        target = named.get("target", os.environ.get("LOADER_TARGET_DSN", ""))
        source = named.get("source", os.environ.get("LOADER_SOURCE_DSN", target))
        most = named.get("maxchanges")
        if most is not None and (not most.isdecimal() or int(most) < 1):
            raise SettingError(f"maxChanges is {most!r}", "give a number from 1 on")
        return cls(
            target,
            named.get("slot", DEFAULT_SLOT),
            named.get("schema", DEFAULT_SCHEMA),
            parse_lsn(named.get("begin"), "begin"),
            parse_lsn(named.get("end"), "end"),
            None if most is None else int(most),
            named.get("reader"),
            named.get("table"),
            source,
        )
