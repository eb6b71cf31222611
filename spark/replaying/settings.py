"""Settings of a replay, under the loader's names."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from waltally.errors import SettingError
from waltally.settings import DEFAULT_DBT_SCHEMA, DEFAULT_SCHEMA, check_names
from waltally.tables import COUNTED, Table


@dataclass(frozen=True)
class ReplaySettings:
    """Which archive, as of when, and what to do with the result. Raises SettingError.

    `at` is a WAL position and `at_time` a moment; without both it is the archive's end, with
    `compare` the fact's position. `target`, which may hold a password, `schema` and
    `dbt_schema` matter to `compare` alone.
    """

    path: str
    slot: str
    tables: tuple[Table, ...]
    at: int | None = None
    at_time: datetime | None = None
    output: str | None = None
    compare: bool = False
    count_archived: bool = True
    target: str = field(default="", repr=False)
    schema: str = DEFAULT_SCHEMA
    dbt_schema: str = DEFAULT_DBT_SCHEMA

    def __post_init__(self) -> None:
        check_names(self.slot, self.schema)
        if len(self.tables) != COUNTED:
            raise SettingError(
                "LOADER_TABLES must name the live table and the archive table",
                "set LOADER_TABLES or --tables as the archived slot has it",
            )
        given = [self.at is not None, self.at_time is not None, self.compare]
        if sum(given) > 1:
            raise SettingError(
                "--at, --at-time and --compare exclude each other", "give one of them"
            )

    @property
    def fact(self) -> Table:
        """The table to compare with; its name is its key in model_watermark too."""
        return Table(self.dbt_schema, "ft_service_stats")


def parse_time(text: str | None) -> datetime | None:
    """Return the moment of --at-time, UTC where it names no zone. Raises SettingError."""
    try:
        moment = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise SettingError(
            f"--at-time is {text!r}: not a time of ISO 8601", "give one like 2026-11-21T09:30:00Z"
        ) from None
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment
