"""The options of the data source. Spark shows them in its UI, so none holds a password."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from common.settings import parse_lsn

from waltally.errors import SettingError
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT, check_names, parse_conninfo

_KNOWN = ("target", "slot", "schema", "archive", "begin", "end", "maxChanges", "reader")


@dataclass(frozen=True)
class Options:
    """Which changes are read, and from where. Raises SettingError.

    `begin` and `end` are positions, None for the first and the last change that is there. With
    `archive` what is archived is read there. `max_changes` bounds a batch of a stream, and `reader`
    is the name that it has in reader_position.
    """

    target: str
    slot: str
    schema: str
    archive: str | None
    begin: int | None
    end: int | None
    max_changes: int | None
    reader: str | None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Options:
        """Return the options as Spark gives them, whose names have no case."""
        named = {name.lower(): value for name, value in given.items()}
        known = {name.lower() for name in _KNOWN}
        unknown = sorted(set(named) - known - {"path"})
        if unknown or "path" in named:
            raise SettingError(
                f"the format waltally has no option {', '.join(unknown) or 'path'}; it has"
                f" {', '.join(_KNOWN)}",
                "docs/data-source.md says what each is",
            )
        target = named.get("target", "")
        if any("password" in word for word in parse_conninfo(target, "target")):
            raise SettingError(
                "the option target has a password, and Spark shows options in its UI",
                "leave it out, and give the driver PGPASSWORD or a password file",
            )
        most = named.get("maxchanges")
        if most is not None and (not most.isdecimal() or int(most) < 1):
            raise SettingError(f"maxChanges is {most!r}", "give a number from 1 on")
        slot, schema = named.get("slot", DEFAULT_SLOT), named.get("schema", DEFAULT_SCHEMA)
        check_names(slot, schema)
        return cls(
            target,
            slot,
            schema,
            named.get("archive"),
            parse_lsn(named.get("begin"), "begin"),
            parse_lsn(named.get("end"), "end"),
            None if most is None else int(most),
            named.get("reader"),
        )
