"""The replay from start to end: a position, the newest baseline before it, the changes between."""

from __future__ import annotations

import contextlib
import time

from archiving import files, manifests
from archiving.folder import Folder
from archiving.manifests import Baseline, Contents
from common.connections import connect, database_errors
from common.errors import ArchiveIncomplete
from common.registration import registered_facts
from common.spark_errors import spark_errors
from deltas import sums
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from replaying import positions, replayed_fact, warehouse_fact
from replaying.result import Difference, Replay, ReplayedFact
from replaying.settings import ReplaySettings
from waltally.errors import SettingError
from waltally.facts import Fact

MAX_DIFFERENCES = 1000
"""The most differences of a fact that are listed; all are counted."""


def replay(settings: ReplaySettings, spark: SparkSession) -> Replay:
    """Compute the facts from the archive alone, and store or compare them. Raises LoaderError."""
    begun = time.monotonic()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    with database_errors("replay"), spark_errors("replay", lambda: None):
        folder = Folder(spark, f"{settings.path.rstrip('/')}/slot={settings.slot}")
        output = Folder(spark, settings.output) if settings.output else None
        if output and output.exists():
            raise SettingError(f"--to {output.uri} exists already", "name a place that is free")
        contents = manifests.read(folder.texts(f"{manifests.FOLDER}/*.json"))
        if not contents.slices:
            raise ArchiveIncomplete(
                f"{folder.uri} holds no changes", "spark-submit spark/archive.py --to the same path"
            )
        if settings.compare:
            found = compared(settings, spark, folder, contents, output)
        else:
            position = positions.position_of(settings, spark, folder, contents)
            positions.require(contents, contents.from_lsn, position)
            found = [
                replayed(
                    settings,
                    spark,
                    folder,
                    contents,
                    position,
                    fact,
                    positions.baseline_before(contents, fact, position),
                    None,
                    output,
                )
                for fact in positions.facts_at(contents, position, settings.facts)
            ]
    return Replay(settings.slot, found, time.monotonic() - begun)


def compared(
    settings: ReplaySettings,
    spark: SparkSession,
    folder: Folder,
    contents: Contents,
    output: Folder | None,
) -> list[ReplayedFact]:
    """Replay each fact to its own position, on its own baseline, and compare the two."""
    found = []
    with contextlib.closing(connect(settings.target, "LOADER_TARGET_DSN", "replay")) as target:
        for fact in registered_facts(target, settings.schema, settings.slot, settings.facts):
            with warehouse_fact.open_fact(target, settings, fact) as built:
                position = built.position
                baseline = positions.baseline_of(contents, fact, built.baseline_id)
                # A checkpoint, so that the target does not keep an old snapshot meanwhile.
                present = built.rows(spark).localCheckpoint()
            found.append(
                replayed(
                    settings, spark, folder, contents, position, fact, baseline, present, output
                )
            )
    return found


def replayed(
    settings: ReplaySettings,
    spark: SparkSession,
    folder: Folder,
    contents: Contents,
    position: int,
    fact: Fact,
    baseline: Baseline | None,
    present: DataFrame | None,
    output: Folder | None,
) -> ReplayedFact:
    """Compute one fact at the position, on the baseline or on nothing; store and compare it.

    `present` is what dbt has built, None where that is not asked. Raises ArchiveIncomplete.
    """
    declared = baseline.fact if baseline else fact
    groups = computed(settings, spark, folder, contents, position, declared, baseline).persist()
    if output:
        rows = replayed_fact.as_rows(groups, declared)
        rows.write.option("compression", "zstd").parquet(output.path(declared.name))
    totals = sums.totals(groups, declared)
    names = [measure.name for measure in declared.measures]
    differing, listed = None, []
    if present is not None:
        both = sums.both(declared, present, groups).where("left <> right").persist()
        differing = both.count()
        listed = [
            Difference(
                dict(zip([each.name for each in declared.dimensions], row[0], strict=True)),
                dict(zip(names, row[1], strict=True)),
                dict(zip(names, row[2], strict=True)),
            )
            for row in both.orderBy("dimensions").limit(MAX_DIFFERENCES).collect()
        ]
        both.unpersist()
    count = groups.count()
    groups.unpersist()
    return ReplayedFact(
        declared,
        position,
        baseline,
        count,
        dict(zip(names, totals, strict=True)),
        differing,
        listed,
    )


def computed(
    settings: ReplaySettings,
    spark: SparkSession,
    folder: Folder,
    contents: Contents,
    position: int,
    fact: Fact,
    baseline: Baseline | None,
) -> DataFrame:
    """Return the fact's groups at the position. Raises ArchiveIncomplete."""
    begin = baseline.snapshot_lsn if baseline else contents.from_lsn
    positions.require(contents, begin, position)
    with positions.missing_files_refused():
        changes = files.read_changes(spark, folder, contents.files(begin, position)).where(
            (sql.col("commit_lsn") >= begin) & (sql.col("commit_lsn") < position)
        )
        groups = files.read_groups(spark, folder, list(baseline.files if baseline else ()))
    return replayed_fact.replayed(groups, changes, fact, settings.slot)
