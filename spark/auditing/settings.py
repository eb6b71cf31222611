"""Settings of the audit: the seed's, and what it compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from history.settings import Settings

from loader.errors import SettingError
from loader.tables import Table

Archived = Literal["exact", "at-least"]
"""Whether archived counts equal the archive's rows, or may be above, as purged ones stay in."""


@dataclass(frozen=True)
class AuditSettings:
    """Where to look, as a seed is told it, the dbt schema, and how to judge.

    `limit` is the most differences that are listed.
    """

    reading: Settings
    dbt_schema: str
    archived: Archived = "at-least"
    limit: int = 50

    def __post_init__(self) -> None:
        if not self.dbt_schema or len(self.dbt_schema.encode()) > 63:
            raise SettingError(
                f"DBT_SCHEMA is {self.dbt_schema!r}: not a schema's name",
                "set DBT_SCHEMA or --dbt-schema, for instance to analytics",
            )

    @property
    def fact(self) -> Table:
        """The table that is audited; its name is its key in model_watermark too."""
        return Table(self.dbt_schema, "ft_service_stats")
