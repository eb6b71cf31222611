"""Reads the slot's present baseline as of one moment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from common.arrow_source import rows
from common.connections import Connection, exported_snapshot, resolved
from pyspark.sql import DataFrame, SparkSession

from archiving.manifests import Baseline, Origin
from archiving.settings import ArchiveSettings
from waltally import lsn
from waltally.tables import Table

SCHEMA = (
    "source_table string, service_id string, template_id string, notification_type string,"
    " notification_status string, row_count bigint"
)
"""The columns of cdc.historical_counts for Spark, ids as text."""

_SELECT = """
    select
        source_table,
        service_id::text as service_id,
        template_id::text as template_id,
        notification_type,
        notification_status,
        row_count
    from {counts}
    where slot_name = '{slot}'
"""


@dataclass(frozen=True)
class OpenBaseline:
    """The slot's baseline before it has files, in a snapshot that ends with `open_baseline`."""

    baseline: Baseline
    conninfo: str = field(repr=False)
    snapshot: str
    query: str

    def counts(self, spark: SparkSession) -> DataFrame:
        """Return its counts, with the columns of SCHEMA."""
        return rows(spark, self.conninfo, [self.query], SCHEMA, self.snapshot)


@contextlib.contextmanager
def open_baseline(
    target: Connection, settings: ArchiveSettings, origin: Origin
) -> Iterator[OpenBaseline | None]:
    """Yield the slot's baseline, None where there is none; it does not change within the block."""
    counts = Table(settings.schema, "historical_counts").quoted
    with exported_snapshot(target) as snapshot:
        found = target.execute(
            "select seed_id::text, snapshot_lsn::text, system_identifier, count(service_id),"
            " coalesce(sum(row_count), 0)::bigint"
            f" from {Table(settings.schema, 'historical_snapshot').quoted}"
            f" left join {counts} using (slot_name) where slot_name = %s"
            " group by seed_id, snapshot_lsn, system_identifier",
            (settings.slot,),
        ).fetchone()
        if found is None:
            yield None
            return
        seed_id, at, system, groups, total = (str(value) for value in found)
        yield OpenBaseline(
            Baseline(
                Origin(system, origin.source_database),
                seed_id,
                lsn.parse(at),
                int(groups),
                int(total),
                (),
            ),
            resolved(target),
            snapshot,
            _SELECT.format(counts=counts, slot=settings.slot),
        )
