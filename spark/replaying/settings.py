"""Settings of a replay, under the loader's names."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from waltally.errors import SettingError
from waltally.settings import DEFAULT_SCHEMA, check_names


@dataclass(frozen=True)
class ReplaySettings:
    """Which archive and facts, as of when, and what to do with the result. Raises SettingError.

    `facts` are names, empty for all. `at` is a WAL position and `at_time` a moment; without both it
    is the archive's end, with `compare` each fact's position. `target`, which may hold a password,
    and `schema` matter to `compare` alone.
    """

    path: str
    slot: str
    facts: tuple[str, ...] = ()
    at: int | None = None
    at_time: datetime | None = None
    output: str | None = None
    compare: bool = False
    target: str = field(default="", repr=False)
    schema: str = DEFAULT_SCHEMA

    def __post_init__(self) -> None:
        check_names(self.slot, self.schema)
        given = [self.at is not None, self.at_time is not None, self.compare]
        if sum(given) > 1:
            raise SettingError(
                "--at, --at-time and --compare exclude each other", "give one of them"
            )


def parse_time(text: str | None) -> datetime | None:
    """Return the moment of --at-time, UTC where it names no zone. Raises SettingError."""
    try:
        moment = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise SettingError(
            f"--at-time is {text!r}: not a time of ISO 8601", "give one like 2026-11-21T09:30:00Z"
        ) from None
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment
