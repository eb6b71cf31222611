"""Reads a fact that dbt has built, with its position, baseline and declaration."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from common.arrow_source import rows
from common.connections import Connection, exported_snapshot, resolved
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from warehouse import watermark
from warehouse.fact import columns, rows_query

from replaying.settings import ReplaySettings
from waltally.facts import Fact


@dataclass(frozen=True)
class WarehouseFact:
    """The fact at `position`, built on a baseline; readable within `open_fact`."""

    fact: Fact
    position: int
    baseline_id: str | None
    conninfo: str = field(repr=False)
    snapshot: str
    query: str

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the slot's rows of the fact: dimensions, sums."""
        dimensions, sums = columns(self.fact)
        ddl = ", ".join(f"{name} string" for name in ("part", *dimensions, *sums))
        found = rows(spark, self.conninfo, [self.query], ddl, self.snapshot)
        return found.select(
            sql.array(*dimensions).alias("dimensions"), sql.array(*sums).alias("sums")
        )


@contextlib.contextmanager
def open_fact(target: Connection, settings: ReplaySettings, fact: Fact) -> Iterator[WarehouseFact]:
    """Yield the fact as of one moment, with its watermark. Raises NotSetUp, SettingError."""
    with exported_snapshot(target) as snapshot:
        built = watermark.read(target, settings.schema, settings.slot, fact)
        yield WarehouseFact(
            fact,
            built.applied_lsn,
            built.baseline_id,
            resolved(target),
            snapshot,
            rows_query(fact, settings.slot, fact.relation.quoted),
        )
