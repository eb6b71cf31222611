"""The seed from start to end: checks, snapshot, counting, replacing the baseline."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from typing import Any

from common import session
from common.connections import Connection, connect, database_errors, resolved
from common.errors import AuditIncomplete
from common.progress import Measure, Progress, print_status
from common.settings import Settings
from common.spark_errors import spark_errors
from counting import checks, snapshot
from counting.counts import count_groups
from counting.reading import identities, table_rows
from facts import loader_progress
from pyspark.sql import DataFrame, SparkSession

from seeding import parquet, purged_counts, store
from seeding.incoming import incoming_target
from waltally import lsn


@dataclass(frozen=True)
class Summary:
    """What the seed did; `tables` has by table (rows, groups) that are stored in it.

    The fact has `purged_rows` in `purged_groups` besides, null where that is not known; `purged`
    says whether they were kept or forgotten, or that it is unknown. `notes` are for a person.
    """

    seed_id: str
    slot: str
    snapshot_lsn: str
    rows: int
    groups: int
    seconds: float
    tables: dict[str, tuple[int, int]]
    left_out: dict[str, int]
    rejections: list[store.Rejection]
    purged: purged_counts.Outcome
    purged_rows: int | None
    purged_groups: int | None
    notes: list[str]

    def as_json(self) -> dict[str, Any]:
        """Return what --json prints."""
        tables = {name: {"rows": r, "groups": g} for name, (r, g) in self.tables.items()}
        return {
            **self.__dict__,
            "seconds": round(self.seconds, 1),
            "tables": tables,
            "rejections": [each.__dict__ for each in self.rejections],
        }

    def __str__(self) -> str:
        lines = [
            f"{self.rows:,} rows in {self.groups:,} groups, counted at {self.snapshot_lsn}"
            f" in {self.seconds:.1f} s"
        ]
        lines += [
            f"{count:,} rows of {table} are left out: a dimension is null"
            for table, count in self.left_out.items()
            if count
        ]
        lines += [
            f"{each.row_count:,} rows of {each.source_table} cannot be counted: {each.reason};"
            f" for instance {json.dumps(each.example, ensure_ascii=False)}"
            for each in self.rejections
        ]
        return "\n".join([*lines, *self.notes])


def seed(settings: Settings) -> Summary:
    """Count the tables and replace the slot's baseline. Raises LoaderError; the old one stays."""
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.enter_context(database_errors("seed"))
        target = stack.enter_context(
            contextlib.closing(connect(settings.target, "LOADER_TARGET_DSN"))
        )
        position = checks.staging(target, settings)
        monitor: Connection | None = None
        if settings.snapshot_lsn is not None:
            present = store.baseline_lsn(target, settings)
            checks.position(settings.snapshot_lsn, position.start_lsn, present)
        else:
            monitor = stack.enter_context(
                contextlib.closing(connect(settings.source, "LOADER_SOURCE_DSN"))
            )
            checks.source(monitor, position)
            checks.tables(monitor, settings.tables)
        is_compared = purged_counts.can_compare(target, monitor, settings)
        stack.enter_context(store.acquire_seed_lock(target, settings, print_status))
        spark = stack.enter_context(session.running())
        table = store.incoming_table(settings.slot)
        incoming = incoming_target(resolved(target), settings.schema, table)
        spark.dataSource.register(incoming)

        archived: purged_counts.ArchivedCounts | None = None
        if is_compared:
            # Before the snapshot, so that changes bring the fact forward to it.
            with spark_errors("seed", lambda: None):
                archived = purged_counts.read(spark, target, settings)
        if settings.parquet is not None and settings.snapshot_lsn is not None:
            snapshot_lsn, known = settings.snapshot_lsn, None
            with spark_errors("seed", lambda: None):
                found = parquet.rows(spark, settings.parquet, settings.tables)
                with Progress(lambda: tasks(spark), lambda: None):
                    groups = count_and_write(found, archived)
        else:
            assert monitor is not None
            with snapshot.export(settings, monitor, print_status) as exported:
                snapshot_lsn = exported.position
                # The snapshot's locks prevent that a name comes to mean another table.
                known = identities(monitor, settings)
                present = store.baseline_lsn(target, settings)
                checks.position(snapshot_lsn, position.start_lsn, present)
                if archived is not None:
                    loader_progress.emit_message(monitor)
                print_status(
                    f"counting {', '.join(map(str, settings.tables))} at {lsn.show(snapshot_lsn)}"
                )
                with (
                    table_rows(spark, settings, exported) as found,
                    spark_errors("seed", exported.check),
                ):
                    groups = count_and_write(found, archived)
        if archived is not None:
            with spark_errors("seed", lambda: None):
                try:
                    then = purged_counts.bring_forward(
                        archived, spark, target, monitor, settings, snapshot_lsn, print_status
                    )
                except AuditIncomplete:
                    if not settings.forget_purged:
                        raise
                    archived = None
                    write(purged_counts.without_purged_rows(groups))
                else:
                    write(purged_counts.with_purged_rows(groups, then, str(settings.tables[1])))
        stored = store.replace(target, settings, snapshot_lsn, known)
        state = (
            purged_counts.find_position(target, settings) if archived is None else archived.state
        )
    return Summary(
        str(stored.seed_id),
        settings.slot,
        lsn.show(snapshot_lsn),
        sum(rows for rows, _ in stored.tables.values()),
        sum(groups for _, groups in stored.tables.values()),
        time.monotonic() - begun,
        stored.tables,
        stored.left_out,
        stored.rejections,
        *purged_counts.describe_outcome(
            settings, state, stored.purged if archived is not None else None
        ),
    )


def count_and_write(found: DataFrame, archived: purged_counts.ArchivedCounts | None) -> DataFrame:
    """Count the rows; write the groups, or cache them where the fact's counts come next."""
    groups = count_groups(found)
    if archived is None:
        write(purged_counts.without_purged_rows(groups))
        return groups
    groups = groups.persist()
    groups.count()
    return groups


def write(groups: DataFrame) -> None:
    """Write the groups into the incoming table."""
    groups.write.format("incoming").mode("append").save()


def tasks(spark: SparkSession) -> Measure:
    """Return how many tasks of the running stages are done."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return Measure(
        sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
    )
