"""Which fact is read, and where."""

from __future__ import annotations

from dataclasses import dataclass

from common.settings import Settings

from waltally.errors import SettingError
from waltally.tables import Table


@dataclass(frozen=True)
class FactSettings:
    """Where to read: the seed's settings and the dbt schema.

    At most `limit` differences are listed.
    """

    reading: Settings
    dbt_schema: str
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
