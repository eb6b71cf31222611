"""The archive from start to end. Per slice: files, then manifest, then the recorded position."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import typer
from common import changes, exact_sums, session
from common.command import AsJson, Job
from common.connections import TargetSession, connect_target
from common.errors import ArchiveIncomplete, CountingFailed, spark_errors
from common.progress import print_lines, print_status
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from archiving import baseline, continuity, delta, files, manifests
from archiving.continuity import CHANGES_PER_SLICE, ArchiveSettings
from archiving.files import Folder
from archiving.manifests import Contents, Origin, Slice
from loader.staging.records import SlotPosition
from waltally import failpoints, lsn
from waltally.errors import NotSetUp
from waltally.facts import Fact
from waltally.options import Schema, Slot, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT
from waltally.units import plural


@dataclass(frozen=True)
class Summary:
    """What one run has added; the archive ends at `to_lsn` now."""

    slot: str
    location: str
    from_lsn: int
    to_lsn: int
    rows: int
    slices: int
    files: int
    baselines: dict[str, str]
    """The id of each baseline that was added, by fact."""
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return what --json prints."""
        positions = {"from_lsn": lsn.show(self.from_lsn), "to_lsn": lsn.show(self.to_lsn)}
        return {"version": 2, **self.__dict__, **positions, "seconds": round(self.seconds, 1)}

    def __str__(self) -> str:
        baselines = f"baseline{'' if len(self.baselines) == 1 else 's'} of " + ", ".join(
            self.baselines
        )
        if not self.slices:
            added = f"the {baselines}" if self.baselines else "nothing new"
            return (
                f"{added}; the archive in {self.location} ends at {lsn.show(self.to_lsn)}, as the"
                f" change log does; {self.seconds:.1f} s"
            )
        return (
            f"{plural(self.rows, 'change')} from {lsn.show(self.from_lsn)} up to"
            f" {lsn.show(self.to_lsn)} in {plural(self.slices, 'slice')},"
            f" {plural(self.files, 'file')}"
            + (f", and the {baselines}" if self.baselines else "")
            + f"; {self.seconds:.1f} s"
        )


def archive(settings: ArchiveSettings, spark: SparkSession) -> Summary:
    """Archive the changes up to the position of record. Raises LoaderError; what it held stays."""
    begun = time.monotonic()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    with (
        contextlib.closing(connect_target(settings, "archive")) as target,
        spark_errors("archive"),
    ):
        continuity.acquire_archive_lock(target)
        folder = Folder(spark, f"{settings.path.rstrip('/')}/slot={settings.slot}")
        contents = manifests.read(folder.texts(f"{manifests.FOLDER}/*.json"))
        slot = target.position()
        recorded = continuity.recorded_lsn(target, folder.uri)
        # Also before a refusal: a prune must not rely on files that are missing or of another log.
        continuity.record(
            target,
            folder.uri,
            contents if continuity.continues(slot, contents) else Contents(),
        )
        continuity.check(slot, contents, recorded, folder.uri)
        files.delete_unnamed(folder, contents)

        begin = contents.to_lsn if contents.slices else slot.start_lsn
        added: list[Slice] = []
        for part in slices(target, settings, begin, slot):
            written = store_changes(spark, target, folder, part)
            added.append(written)
            contents = replace(contents, slices=(*contents.slices, written))
            continuity.record(target, folder.uri, contents)
            print_status(
                f"archived {plural(written.rows, 'change')} up to {lsn.show(written.to_lsn)}"
            )
        if settings.is_delta:
            delta.publish(spark, folder, contents)
        baselines = store_baselines(spark, target, folder, contents, slot)
    return Summary(
        settings.slot,
        folder.uri,
        begin,
        max(begin, contents.to_lsn),
        sum(part.rows for part in added),
        len(added),
        sum(len(part.files) for part in added),
        baselines,
        time.monotonic() - begun,
    )


def registered(target: TargetSession) -> tuple[Fact, ...]:
    """Return the facts that are registered for the slot; none where the log is kept for no fact."""
    try:
        return tuple(target.registered_facts())
    except NotSetUp:
        return ()


def slices(
    target: TargetSession, settings: ArchiveSettings, begin: int, slot: SlotPosition
) -> Iterator[Slice]:
    """Yield the slices to archive, without rows and files; each is whole source transactions."""
    facts = registered(target)
    held = continuity.held(target)
    for end in changes.ends(target, begin, slot.position_lsn, settings.slice_changes):
        yield Slice(Origin.of(slot), begin, end, 0, (), facts, held)
        begin = end


def store_changes(spark: SparkSession, target: TargetSession, folder: Folder, part: Slice) -> Slice:
    """Write a slice's files and then its manifest, which makes it part of the archive.

    Raises CountingFailed where files and log differ in their number of rows, ArchiveIncomplete
    where the log was pruned or made anew meanwhile.
    """
    place = (part.from_lsn, part.to_lsn)
    rows = changes.count(target, *place)
    if rows:
        found = changes.read(spark, target, *place)
        dated = found.withColumns(
            {"date": sql.date_format("committed_at", "yyyy-MM-dd"), "range": sql.lit(part.name)}
        )
        files.write(dated, folder.path(files.CHANGES), "date", "range")
    names = folder.names(f"{files.CHANGES}/date=*/range={part.name}/*.parquet")
    stored = len(names) and files.read_changes(spark, folder, names).count()
    # On the session that holds the lock: had it ended, another archive could be running.
    now = target.position()
    if Origin.of(now) != part.origin or not now.start_lsn <= part.from_lsn:
        raise ArchiveIncomplete(
            f"the change log was pruned or made anew while it was read: it starts at"
            f" {lsn.show(now.start_lsn)} and the archive ends at {lsn.show(part.from_lsn)}",
            "archive to a new place: give another --to",
        )
    if stored != rows:
        raise CountingFailed(
            f"the files of {part.name} have {plural(stored, 'change')} and the log has {rows:,}",
            folder.remedy,
        )
    folder.make_durable(names)
    failpoints.reach("archive-files")
    whole = replace(part, rows=rows, files=tuple(sorted(names)))
    folder.write(f"{manifests.FOLDER}/{whole.name}.json", whole.text())
    failpoints.reach("archive-manifest")
    return whole


def store_baselines(
    spark: SparkSession,
    target: TargetSession,
    folder: Folder,
    contents: Contents,
    slot: SlotPosition,
) -> dict[str, str]:
    """Archive the slot's baselines that are new; return their ids by fact."""
    known = {stored.key for stored in contents.baselines}
    written = []
    with baseline.open_baselines(target, Origin.of(slot)) as found:
        for opened in found:
            # A slot that was moved to another cluster keeps the former's baselines until new ones.
            if opened.baseline.origin == Origin.of(slot) and opened.baseline.key not in known:
                home = folder.path(f"{files.BASELINES}/{opened.baseline.name}")
                files.write(opened.groups(spark), home)
                if opened.archived_groups:
                    home = folder.path(f"{files.ARCHIVED}/{opened.baseline.name}")
                    files.write(opened.archived(spark), home)
                written.append(opened)
    for opened in written:
        each = opened.baseline
        names, archived = (
            sorted(folder.names(f"{place}/{each.name}/*.parquet"))
            for place in (files.BASELINES, files.ARCHIVED)
        )
        stored = files.read_groups(spark, folder, names)
        count, sums = exact_sums.measured(stored, each.fact, "sums")
        totals = tuple(sums["sums"])
        archived_count = files.read_groups(spark, folder, archived).count() if archived else 0
        if (count, totals, archived_count) != (each.groups, each.totals, opened.archived_groups):
            raise CountingFailed(
                f"the files of the baseline {each.baseline_id} of {each.fact.name} have"
                f" {count:,} groups with {', '.join(totals)} and {archived_count:,} of archived"
                f" deletes, and the baseline has {each.groups:,} with {', '.join(each.totals)} and"
                f" {opened.archived_groups:,}",
                folder.remedy,
            )
        folder.make_durable([*names, *archived])
        whole = replace(each, files=tuple(names), archived_files=tuple(archived))
        folder.write(f"{manifests.FOLDER}/baseline-{whole.name}.json", whole.text())
    return {each.baseline.fact.name: each.baseline.baseline_id for each in written}


app = Job("What was archived before is intact.")


@app.command()
def run(
    to: Annotated[
        str, typer.Option(help="The folder to archive to, on any file system that Spark reaches.")
    ],
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    slice_changes: Annotated[
        int, typer.Option(min=1, help="About how many changes become durable at a time.")
    ] = CHANGES_PER_SLICE,
    format: Annotated[
        Literal["parquet", "delta"],
        typer.Option(help="delta: let the Parquet files of the changes be a Delta table too."),
    ] = "parquet",
    as_json: AsJson = False,
) -> None:
    """Copy the new changes and the present baseline to Parquet; each change once.

    For instance: spark-submit spark/archive.py --to s3a://backups/waltally
    """
    settings = ArchiveSettings(
        target or source,
        slot,
        schema,
        to,
        slice_changes,
        format == "delta",
    )
    if settings.is_delta:
        delta.check()
    with session.running("archive") as spark:
        summary = archive(settings, spark)
    print_lines([json.dumps(summary.as_json()) if as_json else str(summary)])
