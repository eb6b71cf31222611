"""Reads the fact that dbt has built, with its position and baseline."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from common import slot_position
from common.arrow_source import rows
from common.connections import Connection, exported_snapshot, resolved
from facts import watermark
from pyspark.sql import DataFrame, SparkSession

from replaying.settings import ReplaySettings
from waltally.tables import registration_finding

_SCHEMA = (
    "service_id string, template_id string, notification_type string, notification_status string,"
    " count bigint, live_count bigint, archived_count bigint"
)


@dataclass(frozen=True)
class WarehouseFact:
    """The fact at `position`, built on a baseline; readable within `open_fact`."""

    position: int
    seed_id: str | None
    conninfo: str = field(repr=False)
    snapshot: str
    query: str

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the fact's rows without their ids."""
        return rows(spark, self.conninfo, [self.query], _SCHEMA, self.snapshot)


@contextlib.contextmanager
def open_fact(target: Connection, settings: ReplaySettings) -> Iterator[WarehouseFact]:
    """Yield the fact as of one moment, with its watermark. Raises NotSetUp, SettingError."""
    with exported_snapshot(target) as snapshot:
        built = watermark.find(target, settings.schema, settings.slot, settings.fact)
        if built is None:
            raise watermark.not_built(settings.slot, settings.fact)
        slot = slot_position.find(target, settings.schema, settings.slot)
        if slot is not None and (
            other := registration_finding(settings.tables, slot.tables, settings.slot, logged=False)
        ):
            raise other
        yield WarehouseFact(
            built.applied_lsn,
            built.seed_id,
            resolved(target),
            snapshot,
            "select service_id::text, template_id::text, notification_type, notification_status,"
            f" count, live_count, archived_count from {settings.fact.quoted}",
        )
