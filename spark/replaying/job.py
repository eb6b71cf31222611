"""The replay from start to end: a position, the newest baseline before it, the changes between."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Annotated

import typer
from archiving.files import Archive
from archiving.folder import Folder
from archiving.manifests import Baseline
from common import session
from common.arrow import Snapshot
from common.command import AsJson, Facts, Job
from common.connections import connect_target, exported_snapshot, resolved
from common.errors import ReplayDiffers
from common.progress import print_lines, print_status
from common.settings import parse_lsn
from common.spark_errors import spark_errors
from deltas import sums
from deltas.rules import FactChanges
from pyspark.sql import DataFrame, SparkSession
from warehouse import fact_state, groups

from replaying import positions
from replaying.positions import ReplaySettings, parse_time
from replaying.result import Difference, Replay, ReplayedFact, as_rows
from waltally import lsn
from waltally.errors import SettingError, combine
from waltally.facts import Fact
from waltally.options import Schema, Slot, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT
from waltally.units import plural

MAX_DIFFERENCES = 1000
"""The most differences of a fact that are listed; all are counted."""


def replay(settings: ReplaySettings, spark: SparkSession) -> Replay:
    """Compute the facts from the archive alone, and store or compare them. Raises LoaderError."""
    begun = time.monotonic()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    with spark_errors("replay"):
        output = Folder(spark, settings.output) if settings.output else None
        if output and output.exists():
            raise SettingError(f"--to {output.uri} exists already", "name a place that is free")
        archive = Archive.open(spark, settings.path, settings.slot)
        with session.fitted(spark, archive.row_count):
            compute = compared if settings.compare else computed_at
            found = compute(settings, archive, output)
    return Replay(settings.slot, found, time.monotonic() - begun)


def computed_at(
    settings: ReplaySettings, archive: Archive, output: Folder | None
) -> list[ReplayedFact]:
    """Replay the facts to the requested position."""
    contents = archive.contents
    position = positions.position_of(settings, archive)
    archive.require(contents.from_lsn, position)
    return [
        replayed(
            archive, position, fact, positions.baseline_before(contents, fact, position), output
        )
        for fact in positions.facts_at(contents, position, settings.facts)
    ]


def compared(
    settings: ReplaySettings, archive: Archive, output: Folder | None
) -> list[ReplayedFact]:
    """Replay each fact to its own position, on its own baseline, and compare the two."""
    found = []
    with contextlib.closing(connect_target(settings, "replay")) as target:
        for fact in target.registered_facts(settings.facts):
            with exported_snapshot(target) as name:
                position = fact_state.applied_lsn(target, fact)
                positions.require_reached(archive.contents, fact, position, settings.path)
                baseline_id = fact_state.baseline_id(target, fact)
                baseline = positions.baseline_of(archive.contents, fact, baseline_id)
                query = groups.fact_query(fact, settings.slot, fact.relation.quoted)
                snapshot = Snapshot(resolved(target), name)
                # A checkpoint, so that the target does not keep an old snapshot meanwhile.
                present = groups.read(archive.spark, snapshot, [query], fact).localCheckpoint()
            print_status(f"{fact.relation} is read at {lsn.show(position)}; builds may go on")
            found.append(replayed(archive, position, fact, baseline, output, present))
    return found


def replayed(
    archive: Archive,
    position: int,
    fact: Fact,
    baseline: Baseline | None,
    output: Folder | None,
    present: DataFrame | None = None,
) -> ReplayedFact:
    """Compute one fact at the position, on the baseline or on nothing; store and compare it.

    `present` is what dbt has built, None where that is not asked. Raises ArchiveIncomplete.
    """
    declared = baseline.fact if baseline else fact
    rebuilt = computed(archive, position, declared, baseline).persist()
    if output:
        rows = as_rows(rebuilt, declared)
        rows.write.option("compression", "zstd").parquet(output.path(declared.name))
    measures = [measure.name for measure in declared.measures]
    dimensions = [dimension.name for dimension in declared.dimensions]
    count, totals = sums.measured(rebuilt, declared, "sums")
    differing, listed = None, []
    if present is not None:
        both = sums.both(declared, present, rebuilt).where("left <> right").persist()
        differing = both.count()
        first = both.orderBy("dimensions").limit(MAX_DIFFERENCES).collect() if differing else []
        listed = [
            Difference(
                dict(zip(dimensions, row["dimensions"], strict=True)),
                dict(zip(measures, row["left"], strict=True)),
                dict(zip(measures, row["right"], strict=True)),
            )
            for row in first
        ]
        both.unpersist()
    rebuilt.unpersist()
    by_name = dict(zip(measures, totals["sums"], strict=True))
    return ReplayedFact(declared, position, baseline, count, by_name, differing, listed)


def computed(archive: Archive, position: int, fact: Fact, baseline: Baseline | None) -> DataFrame:
    """Return the fact's groups at the position. Raises ArchiveIncomplete."""
    begin = baseline.snapshot_lsn if baseline else archive.contents.from_lsn
    changes = archive.changes(begin, position)
    before = archive.groups(baseline.files if baseline else ())
    return FactChanges(changes, fact, archive.slot).applied_to(before, "dimensions")


app = Job("")


@app.command()
def run(
    path: Annotated[str, typer.Option("--from", help="The folder that was archived to.")],
    at: Annotated[str | None, typer.Option(help="A WAL position; else the archive's end.")] = None,
    at_time: Annotated[
        str | None, typer.Option(help="A moment, ISO 8601; without a zone it is UTC.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Write each fact to a new folder in this one, as Parquet.")
    ] = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Compare with the facts, at each fact's position. The archive must have reached"
            " it: under traffic let no build run between archive and replay.",
        ),
    ] = False,
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    fact: Facts = None,
    as_json: AsJson = False,
) -> None:
    """Compute the facts as of any archived position or time, from the archive alone.

    For instance: spark-submit spark/replay.py --from s3a://backups/waltally --to as-of-monday
    --fact ft_service_stats --at-time 2026-11-16T00:00:00Z
    """
    settings = ReplaySettings(
        path,
        slot,
        tuple(fact or ()),
        parse_lsn(at, "--at"),
        parse_time(at_time),
        to,
        compare,
        target or source,
        schema,
    )
    with session.running("replay") as spark:
        result = replay(settings, spark)
    print_lines([json.dumps(result.as_json())] if as_json else result.lines())
    if result.differing:
        raise combine(
            [
                ReplayDiffers(
                    f"{each.fact.relation} differs from the replay in"
                    f" {plural(each.difference_count or 0, 'group')}",
                    f"`spark-submit spark/audit.py --fact {each.fact.name}`: where it differs too"
                    " the fact is wrong, else the archive",
                )
                for each in result.differing
            ]
        )
