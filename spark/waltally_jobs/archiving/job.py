"""The archive from start to end. Per slice: files, then manifest, then the recorded position."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import typer
from pyspark.sql import SparkSession

from loader.staging.records import SlotPosition
from loader.staging.registration import read_registration
from waltally import failpoints, lsn
from waltally.options import Schema, Slot, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT
from waltally.units import plural
from waltally_jobs.archiving import baseline, continuity, delta, files, manifests
from waltally_jobs.archiving.baseline import OpenBaseline
from waltally_jobs.archiving.continuity import CHANGES_PER_SLICE, ArchiveSettings
from waltally_jobs.archiving.folder import Folder
from waltally_jobs.archiving.manifests import Contents, Origin, Slice
from waltally_jobs.common import arrow, changes, session
from waltally_jobs.common.command import AsJson, Job
from waltally_jobs.common.connections import TargetSession, connect_target, resolved
from waltally_jobs.common.errors import ArchiveIncomplete, CountingFailed, spark_errors
from waltally_jobs.common.progress import print_lines, print_status


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
    """The id of each baseline that was added, by model."""
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return what --json prints."""
        positions = {"from_lsn": lsn.show(self.from_lsn), "to_lsn": lsn.show(self.to_lsn)}
        return {"version": 3, **self.__dict__, **positions, "seconds": round(self.seconds, 1)}

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
    with contextlib.closing(connect_target(settings, "archive")) as target, spark_errors("archive"):
        continuity.acquire_archive_lock(target)
        folder, contents = files.read_manifests(settings.path, settings.slot)
        slot = target.position()
        recorded = continuity.recorded_lsn(target, folder.uri)
        # Also before a refusal: a prune must not rely on files that are missing or of another log.
        continuity.record(
            target, folder.uri, contents if continuity.continues(slot, contents) else Contents()
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
            delta.publish(folder, contents)
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


def slices(
    target: TargetSession, settings: ArchiveSettings, begin: int, slot: SlotPosition
) -> Iterator[Slice]:
    """Yield the slices to archive, without rows and files; each is whole source transactions."""
    models = tuple(read_registration(target).models)
    known = continuity.held(target)
    for end in changes.ends(target, begin, slot.position_lsn, settings.slice_changes):
        yield Slice(Origin.of(slot), begin, end, 0, (), models, *known)
        begin = end


def store_changes(spark: SparkSession, target: TargetSession, folder: Folder, part: Slice) -> Slice:
    """Write a slice's files and then its manifest, which makes it part of the archive.

    Raises CountingFailed where files and log differ in their number of rows, ArchiveIncomplete
    where the log was pruned or made again meanwhile.
    """
    place = (part.from_lsn, part.to_lsn)
    rows = changes.count(target, *place)
    task = files.written_by_day(folder, part.name)
    reads = arrow.queries(resolved(target), changes.queries(target, *place) if rows else [])
    names = files.stored(spark, reads, task)
    stored = rows_read_back(folder, names)
    # On the session that holds the lock: had it ended, another archive could be running.
    now = target.position()
    if Origin.of(now) != part.origin or not now.start_lsn <= part.from_lsn:
        raise ArchiveIncomplete(
            f"the change log was pruned or made again while it was read: it starts at"
            f" {lsn.show(now.start_lsn)} and the archive ends at {lsn.show(part.from_lsn)}",
            "archive to a new place: give another --to",
        )
    if stored != rows:
        raise CountingFailed(
            f"the files of {part.name} have {plural(stored, 'change')} and the log has {rows:,}",
            "run the archive again",
        )
    folder.make_durable(names)
    failpoints.reach("archive-files")
    whole = replace(part, rows=rows, files=names)
    folder.write(f"{manifests.FOLDER}/{whole.name}.json", manifests.text(whole))
    failpoints.reach("archive-manifest")
    return whole


def store_baselines(
    spark: SparkSession,
    target: TargetSession,
    folder: Folder,
    contents: Contents,
    slot: SlotPosition,
) -> dict[str, str]:
    """Archive the slot's baselines that are new; return their ids by model."""
    known = {stored.key for stored in contents.baselines}
    written = []

    def write(kind: str, opened: OpenBaseline, queries: Sequence[str]) -> tuple[str, ...]:
        reads = arrow.queries(resolved(target), queries, opened.snapshot)
        task = files.written_to(folder, f"{kind}/{opened.baseline.name}")
        return files.stored(spark, reads, task)

    with baseline.open_baselines(target, Origin.of(slot)) as found:
        for opened in found:
            # A slot that was moved to another cluster keeps the former's baselines until new ones.
            if opened.baseline.origin == Origin.of(slot) and opened.baseline.key not in known:
                names = write(files.BASELINES, opened, [opened.query])
                gone = [opened.archived_query] if opened.archived_groups else []
                archived = write(files.ARCHIVED, opened, gone)
                written.append((opened, names, archived))
    for opened, names, archived in written:
        each = opened.baseline
        stored = rows_read_back(folder, names), rows_read_back(folder, archived)
        if stored != (each.groups, opened.archived_groups):
            raise CountingFailed(
                f"the files of the baseline {each.baseline_id} of {each.model.name} have"
                f" {stored[0]:,} groups and {stored[1]:,} of archived deletes, and the baseline has"
                f" {each.groups:,} and {opened.archived_groups:,}",
                "run the archive again",
            )
        folder.make_durable([*names, *archived])
        whole = replace(each, files=names, archived_files=archived)
        folder.write(f"{manifests.FOLDER}/baseline-{whole.name}.json", manifests.text(whole))
    return {each.baseline.model.name: each.baseline.baseline_id for each, *_ in written}


def rows_read_back(folder: Folder, names: Sequence[str]) -> int:
    """Return how many rows the files have that executors have just written.

    Raises CountingFailed where the driver does not find them.
    """
    if folder.missing(names):
        where = "a folder of each machine's own" if folder.is_local else "not shared"
        raise CountingFailed(
            f"the driver does not find what the tasks have written to {folder.uri}: it is {where}",
            "give --to a place that all machines of the cluster share: s3://, gs://, abfs://,"
            " hdfs:// or a mounted folder",
        )
    return files.row_count(folder, names)


app = Job("What was archived before is intact.")


@app.command()
def run(
    to: Annotated[
        str,
        typer.Option(
            help="Where to archive: a mounted folder, or s3://, gs://, abfs:// or hdfs://."
        ),
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
        typer.Option(help="delta: the Parquet files of the changes are a Delta table too."),
    ] = "parquet",
    as_json: AsJson = False,
) -> None:
    """Copy new changes and the present baselines to Parquet, each change once.

    For instance: spark-submit spark/archive.py --to s3://backups/waltally
    """
    settings = ArchiveSettings(target or source, slot, schema, to, slice_changes, format == "delta")
    if settings.is_delta:
        delta.check()
    with session.running("archive") as spark:
        summary = archive(settings, spark)
    print_lines([json.dumps(summary.as_json()) if as_json else str(summary)])
