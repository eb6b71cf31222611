"""What the facts' tables held at a position, from an archive alone.

A fact that has an archived baseline of its declaration goes on from it. Any other one is counted
from the archived current rows of its tables, which hold each row whole.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from archiving.files import Archive
from archiving.manifests import Baseline
from common import exact_sums
from common.command import Settings
from common.errors import ArchiveIncomplete, SnapshotTooOld
from counting.counts import DDL
from deltas.rules import FactChanges
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from rules.tallies import NULL_DIMENSION

from loader.source.table_identity import TableIdentities, TableIdentity, of_fact
from loader.staging.records import SlotPosition
from seeding.archived import WENT
from waltally import lsn
from waltally.errors import combine
from waltally.facts import Fact, FactTable


@dataclass(frozen=True)
class Found:
    """What an archive says of a fact: its groups and what has none, and which tables it counted.

    `groups` has the columns counts.COLUMNS; with WENT as the reason they are archived deletes.
    """

    groups: DataFrame
    identities: TableIdentities


def position(archive: Archive, slot: SlotPosition, settings: Settings) -> int:
    """Return where the baselines will be. Raises AnotherCluster, ArchiveIncomplete.

    Raises SnapshotTooOld where the change log does not go on from there.
    """
    contents = archive.contents
    contents.require_origin(slot, archive.folder.uri, "name the archive of this slot")
    at = contents.to_lsn if settings.at is None else settings.at
    archive.require(contents.from_lsn, at)
    if at < slot.start_lsn:
        end = "is asked for" if settings.at is not None else "is where the archive ends"
        raise SnapshotTooOld(
            f"{lsn.show(at)} {end}, and the change log starts at {lsn.show(slot.start_lsn)}: the"
            " changes between are in neither",
            "ask for a later position, or seed from the source: the same without --archive",
        )
    return at


def count(archive: Archive, facts: Sequence[Fact], at: int) -> list[Found]:
    """Return what the archive says of the facts at the position, in their order.

    Raises ArchiveIncomplete for all of which it does not say enough.
    """
    found, refused = [], []
    for fact in facts:
        try:
            found.append(_count_one(archive, fact, at))
        except ArchiveIncomplete as error:
            refused.append(error)
    if refused:
        raise combine(list(refused))
    return found


def identities(found: Sequence[Found]) -> TableIdentities:
    """Return which tables and columns the facts counted, as one record a table."""
    together: dict[str, TableIdentity] = {}
    for each in found:
        for label, identity in each.identities.items():
            known = together.get(label, identity)
            columns = {**known["column_numbers"], **identity["column_numbers"]}
            together[label] = {**identity, "column_numbers": columns}
    return together


def _count_one(archive: Archive, fact: Fact, at: int) -> Found:
    for baseline in reversed(archive.contents.baselines_of(fact.name)):
        is_same = baseline.fact.declaration == fact.declaration
        if is_same and baseline.snapshot_lsn <= at:
            return _continued(archive, baseline, at)
    return _counted(archive, fact, at)


def _continued(archive: Archive, baseline: Baseline, at: int) -> Found:
    """Return the fact's own baseline with the changes up to the position."""
    fact, begin = baseline.fact, baseline.snapshot_lsn
    held = archive.contents.held_lsn(fact, at)
    if begin < at and (held is None or held > begin):
        since = "not known to hold" if held is None else f"from {lsn.show(held)} on"
        raise ArchiveIncomplete(
            f"the baseline of {fact.name} is at {lsn.show(begin)}, and its changes up to"
            f" {lsn.show(at)} are {since} in the archive",
            _seed_it(fact),
        )
    later = FactChanges(archive.changes(begin, at), fact, archive.slot)
    rejected_lsn = later.rejected.first_lsn
    if rejected_lsn is not None:
        raise ArchiveIncomplete(
            f"a change at {lsn.show(rejected_lsn)} cannot be counted for {fact.name}:"
            f" {later.rejected.first_reason}",
            f"give an --at up to {lsn.show(rejected_lsn)}; or {_seed_it(fact)}",
        )
    gone = archive.groups(baseline.archived_files)
    minus = gone.withColumn("sums", exact_sums.negated(sql.col("sums"), sql.lit(-1)))
    stored = archive.groups(baseline.files).unionByName(minus)
    rows = later.applied_to(stored, "part", "dimensions", all_deletes=True)
    groups = [_as_groups(rows, fact, None)]
    if fact.kind == "fact":
        went = later.untruncated(gone).unionByName(later.archived_deletes())
        groups.append(
            _as_groups(exact_sums.summed(went, fact, "part", "dimensions"), fact, WENT),
        )
    left_out = {
        part: rows for part, rows in baseline.left_out.items() if part not in later.truncates
    }
    for part, rows_more in later.left_out().items():
        left_out[part] = left_out.get(part, 0) + rows_more
    uncounted: list[tuple[Any, ...]] = [
        (fact.name, part, [], count, [], NULL_DIMENSION, None)
        for part, count in left_out.items()
        if count
    ]
    uncounted += [
        (
            *(fact.name, each["part"], [], each["row_count"], [], each["reason"]),
            json.dumps(each["example"]),
        )
        for each in baseline.rejections
        if each["part"] not in later.truncates
    ]
    groups.append(archive.spark.createDataFrame(uncounted, DDL))
    return Found(reduce(DataFrame.unionByName, groups), baseline.identities)


def _counted(archive: Archive, fact: Fact, at: int) -> Found:
    """Return the fact counted from the current rows of its tables."""
    inserts, identities = [], []
    for part in fact.tables:
        baseline = _rows_of(archive, fact, part, at)
        rows = _continued(archive, baseline, at)
        missing = rows.groups.where("reason is not null").first()
        if missing is not None:
            raise ArchiveIncomplete(
                f"{baseline.fact.name} does not hold every row of {part.table}:"
                f" {missing['reason']}",
                _seed_it(fact),
            )
        inserts.append(_as_inserts(rows.groups, baseline.fact, part, at))
        identities.append(of_fact(rows.identities, fact))
    changes = reduce(DataFrame.unionByName, inserts)
    own = FactChanges(changes, fact, archive.slot, may_truncate=False)
    uncounted: list[tuple[Any, ...]] = [
        (fact.name, each.part, [], each.count, [], each.reason, each.example)
        for each in own.lacking
    ]
    return Found(
        _as_groups(own.deltas(), fact, None).unionByName(
            archive.spark.createDataFrame(uncounted, DDL)
        ),
        reduce(lambda one, other: {**one, **other}, identities),
    )


def _rows_of(archive: Archive, fact: Fact, part: FactTable, at: int) -> Baseline:
    """Return the newest archived current rows that have all that a table of the fact needs."""
    needed = set(fact.needed_columns(part))
    for each in reversed(archive.contents.baselines):
        rows = each.fact
        [own, *_] = rows.tables
        plain = (one.column for one in rows.dimensions if one.kind == "column" and one.column)
        columns = set(map(own.column, plain))
        is_whole = rows.kind == "current_rows" and not rows.where and own.table == part.table
        if is_whole and needed <= columns and each.snapshot_lsn <= at:
            return each
    raise ArchiveIncomplete(
        f"the archive has no baseline of {fact.name} as it is declared now at or before"
        f" {lsn.show(at)}, and no current rows of {part.table} with"
        f" {', '.join(sorted(needed)) or 'all of its rows'}",
        _seed_it(fact),
    )


def _as_inserts(groups: DataFrame, rows: Fact, part: FactTable, at: int) -> DataFrame:
    """Return current rows as the stream would insert them, with the columns of a change log."""
    columns = sql.array(
        *(
            sql.struct(
                sql.lit(rows.tables[0].column(each.column)).alias("name"),
                sql.get("dimensions", place).alias("value"),
            )
            for place, each in enumerate(rows.dimensions)
            if each.column is not None
        )
    )
    message = sql.struct(
        sql.lit("I").alias("action"),
        sql.lit(part.table.schema).alias("schema"),
        sql.lit(part.table.name).alias("table"),
        columns.alias("columns"),
    )
    return groups.select(
        sql.lit(at).cast("bigint").alias("commit_lsn"),
        sql.lit(1).cast("bigint").alias("ordinal"),
        sql.lit("I").alias("action"),
        sql.to_json(message, {"ignoreNullFields": "false"}).alias("payload"),
    )


def _as_groups(rows: DataFrame, fact: Fact, reason: str | None) -> DataFrame:
    """Return part, dimensions and sums with the columns counts.COLUMNS."""
    nothing = sql.lit(None).cast("string")
    return rows.select(
        sql.lit(fact.name).alias("fact"),
        "part",
        "dimensions",
        _row_count(fact).alias("row_count"),
        "sums",
        nothing.alias("reason") if reason is None else sql.lit(reason).alias("reason"),
        nothing.alias("example"),
    )


def _row_count(fact: Fact) -> Column:
    """Return how many rows a group has; 0 where no measure counts the rows of its table."""
    found = sql.lit(0).cast("bigint")
    for part in fact.tables:
        if (place := fact.counting_place(part)) is not None:
            own = sql.get("sums", place).cast("bigint")
            found = sql.when(sql.col("part") == part.name, own).otherwise(found)
    return sql.lit(1).cast("bigint") if fact.kind == "current_rows" else found


def _seed_it(fact: Fact) -> str:
    return f"seed it from the source: `spark-submit spark/seed.py --fact {fact.name}`"
