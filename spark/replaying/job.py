"""The replay from start to end: a position, the newest baseline before it, the changes between."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from archiving import job as archive
from archiving import manifests
from archiving.folder import Folder
from archiving.manifests import Baseline, Contents
from common.connections import connect, database_errors
from common.errors import ArchiveIncomplete
from common.spark_errors import spark_errors
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from replaying import replayed_fact, warehouse_fact
from replaying.settings import ReplaySettings
from waltally import lsn
from waltally.errors import SettingError
from waltally.tables import DIMENSIONS, registration_finding

MOST_DIFFERENCES = 1000
"""The most differences that are listed; all are counted."""


@dataclass(frozen=True)
class Replay:
    """The fact's sums at `position`, and with `compare` where dbt's fact differs."""

    slot: str
    position: int
    baseline: Baseline | None
    groups: int
    count: int
    live_count: int
    archived_count: int
    difference_count: int | None
    differences: tuple[dict[str, Any], ...]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return what --json prints: a contract."""
        seed = self.baseline
        return {
            "version": 1,
            "slot": self.slot,
            "position": lsn.show(self.position),
            "seed_id": seed and seed.seed_id,
            "snapshot_lsn": seed and lsn.show(seed.snapshot_lsn),
            "groups": self.groups,
            "count": self.count,
            "live_count": self.live_count,
            "archived_count": self.archived_count,
            "difference_count": self.difference_count,
            "differences": self.differences,
            "seconds": round(self.seconds, 1),
        }

    def lines(self) -> Iterator[str]:
        """Yield what a person reads."""
        for each in self.differences:
            group = ", ".join(str(each[name]) for name in DIMENSIONS)
            counts = ", ".join(
                f"{name} {each[f'fact_{name}']:,} and not {each[f'replay_{name}']:,}"
                for name in replayed_fact.COUNTS
                if each[f"fact_{name}"] != each[f"replay_{name}"]
            )
            yield f"{group}: the fact has {counts}"
        if self.difference_count is not None:
            yield f"{self.difference_count:,} groups differ from the fact"
        yield (
            f"{self.count:,} notifications in {self.groups:,} groups as of"
            f" {lsn.show(self.position)}, in {self.seconds:.1f} s"
        )


def replay(settings: ReplaySettings, spark: SparkSession) -> Replay:
    """Compute the fact from the archive alone, and store or compare it. Raises LoaderError."""
    begun = time.monotonic()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    with database_errors("replay"), spark_errors("replay", lambda: None):
        folder = Folder(spark, f"{settings.path.rstrip('/')}/slot={settings.slot}")
        output = settings.output and Folder(spark, settings.output)
        if output and output.exists():
            raise SettingError(f"--to {output.uri} exists already", "name a place that is free")
        contents = manifests.read(folder.texts(f"{manifests.FOLDER}/*.json"))
        if not contents.slices:
            raise ArchiveIncomplete(
                f"{folder.uri} holds no changes", "spark-submit spark/archive.py --to the same path"
            )
        # With other tables no change would count, or live rows would count as archived ones.
        other = contents.tables and registration_finding(
            settings.tables, contents.tables, settings.slot, logged=False
        )
        if other:
            raise other
        present: DataFrame | None = None
        if settings.compare:
            with (
                contextlib.closing(
                    connect(settings.target, "LOADER_TARGET_DSN", "replay")
                ) as target,
                warehouse_fact.open_fact(target, settings) as warehouse,
            ):
                position, seed = warehouse.position, baseline_of(contents, warehouse.seed_id)
                # A checkpoint, so that the target does not keep an old snapshot meanwhile.
                present = warehouse.rows(spark).localCheckpoint()
        else:
            position = position_of(settings, spark, folder, contents)
            seed = newest_baseline(contents, position)
        result = replayed(settings, spark, folder, contents, position, seed).persist()
        if output:
            result.write.option("compression", "zstd").parquet(output.uri)
        groups, count, live, archived_count = result.agg(
            sql.count("*"),
            *(sql.coalesce(sql.sum(name), sql.lit(0)) for name in replayed_fact.COUNTS),
        ).collect()[0]
        found = None if present is None else replayed_fact.differences(present, result).persist()
        differing = None if found is None else found.count()
        listed = [] if found is None else found.limit(MOST_DIFFERENCES).collect()
        for frame in (result, found):
            if frame is not None:
                frame.unpersist()
    return Replay(
        settings.slot,
        position,
        seed,
        groups,
        count,
        live,
        archived_count,
        differing,
        tuple(row.asDict() for row in listed),
        time.monotonic() - begun,
    )


def replayed(
    settings: ReplaySettings,
    spark: SparkSession,
    folder: Folder,
    contents: Contents,
    position: int,
    seed: Baseline | None,
) -> DataFrame:
    """Return the fact at the position, on the seed or on nothing. Raises ArchiveIncomplete."""
    begin = seed.snapshot_lsn if seed else contents.from_lsn
    if not contents.holds(begin, position):
        raise ArchiveIncomplete(
            f"the changes from {lsn.show(begin)} up to {lsn.show(position)} are asked for;"
            f" the archive holds those from {lsn.show(contents.from_lsn)} up to"
            f" {lsn.show(contents.to_lsn)}",
            "archive again, or ask for another position",
        )
    with missing_files_refused():
        changes = archive.read_changes(spark, folder, contents.files(begin, position)).where(
            (sql.col("commit_lsn") >= begin) & (sql.col("commit_lsn") < position)
        )
        baseline = archive.read_counts(spark, folder, list(seed.files if seed else ()))
    live, archive_table = (str(table) for table in settings.tables)
    return replayed_fact.replayed(baseline, changes, live, archive_table, settings.count_archived)


@contextlib.contextmanager
def missing_files_refused() -> Iterator[None]:
    """Raise ArchiveIncomplete where a file that is opened in the block is missing."""
    try:
        yield
    except AnalysisException as error:
        raise ArchiveIncomplete(
            f"a file that a manifest names cannot be read: {error.getCondition()},"
            f" {error.getMessageParameters()}",
            "bring the files back from a copy",
        ) from None


def position_of(
    settings: ReplaySettings, spark: SparkSession, folder: Folder, contents: Contents
) -> int:
    """Return the requested position, by default the archive's end. Raises ArchiveIncomplete."""
    if settings.at is not None:
        return settings.at
    if settings.at_time is not None:
        return position_at(spark, folder, contents, settings.at_time)
    return contents.to_lsn


def position_at(spark: SparkSession, folder: Folder, contents: Contents, moment: datetime) -> int:
    """Return the position of the first transaction that committed after the moment.

    Transactions are ordered by their commit records, which is not exactly the order of their commit
    times: one that committed at or before the moment, but whose record comes after that of a later
    one, is not counted. Raises ArchiveIncomplete where no archived transaction is later.
    """
    day = moment.astimezone(UTC).strftime("date=%Y-%m-%d")
    files = [
        file
        for file in contents.files(contents.from_lsn, contents.to_lsn)
        if file[file.index("date=") :] >= day
    ]
    at = sql.timestamp_micros(sql.lit(round(moment.timestamp() * 1_000_000)))
    with missing_files_refused():
        later = archive.read_changes(spark, folder, files).where(sql.col("committed_at") > at)
    first = later.agg(sql.min("commit_lsn")).collect()[0][0]
    if first is None:
        raise ArchiveIncomplete(
            f"no archived transaction is later than {moment.isoformat()}, so more may come that"
            f" are not; the archive ends at {lsn.show(contents.to_lsn)}",
            "archive again, or give --at a position",
        )
    return int(first)


def newest_baseline(contents: Contents, position: int) -> Baseline | None:
    """Return the newest baseline at or before the position."""
    fitting = [seed for seed in contents.baselines if seed.snapshot_lsn <= position]
    return fitting[-1] if fitting else None


def baseline_of(contents: Contents, seed_id: str | None) -> Baseline | None:
    """Return the baseline that the fact was built on. Raises ArchiveIncomplete.

    Another one may give other counts: rows purged between two baselines are only in the older one.
    """
    if seed_id is None:
        return None
    for seed in contents.baselines:
        if seed.seed_id == seed_id:
            return seed
    raise ArchiveIncomplete(
        f"the fact stands on the seed {seed_id}, which is not archived",
        "archive again; where a newer seed has replaced it, `dbt build` first",
    )
