"""The fact that dbt holds, and the position and the seed that it stands on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from common.arrow_source import rows
from common.connections import Connection, resolved
from psycopg import sql
from pyspark.sql import DataFrame, SparkSession

from replaying.settings import ReplaySettings
from waltally import lsn
from waltally.errors import NotSetUp
from waltally.tables import registration_finding, tables_from_json

_SCHEMA = (
    "service_id string, template_id string, notification_type string, notification_status string,"
    " count bigint, live_count bigint, archived_count bigint"
)


@dataclass(frozen=True)
class Stored:
    """The fact at `position`, built on the seed; readable within `hold`."""

    position: int
    seed_id: str | None
    conninfo: str = field(repr=False)
    snapshot: str
    query: str

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the fact's rows without their ids."""
        return rows(spark, self.conninfo, [self.query], _SCHEMA, self.snapshot)


@contextlib.contextmanager
def hold(target: Connection, settings: ReplaySettings) -> Iterator[Stored]:
    """Keep the fact readable as it is now, with its watermark. Raises NotSetUp, SettingError."""
    with target.transaction():
        target.execute("set transaction isolation level repeatable read read only")
        row = target.execute(
            sql.SQL(
                "select applied_lsn::text, seed_id::text, pg_export_snapshot() from {}"
                " where model_name = %s and slot_name = %s"
            ).format(sql.Identifier(settings.schema, "model_watermark")),
            (str(settings.fact), settings.slot),
        ).fetchone()
        if row is None:
            raise NotSetUp(
                f"{settings.fact} has not been built from the slot {settings.slot} yet",
                "`dbt build`, with the same LOADER_SLOT, LOADER_SCHEMA and DBT_SCHEMA",
            )
        registered = target.execute(
            sql.SQL("select registered_tables from {} where slot_name = %s").format(
                sql.Identifier(settings.schema, "slot_position")
            ),
            (settings.slot,),
        ).fetchone()
        if registered is not None:
            tables = tables_from_json(cast(list[list[str]], registered[0]))
            other = registration_finding(settings.tables, tables, settings.slot, logged=False)
            if other is not None:
                raise other
        applied, seed_id, snapshot = row
        yield Stored(
            lsn.parse(str(applied)),
            None if seed_id is None else str(seed_id),
            resolved(target),
            str(snapshot),
            "select service_id::text, template_id::text, notification_type, notification_status,"
            f" count, live_count, archived_count from {settings.fact.quoted}",
        )
