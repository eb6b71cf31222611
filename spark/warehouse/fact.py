"""A fact as it is built: its rows, position and baseline, read in one transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from common import slot_position
from common.arrow_source import Snapshot
from common.connections import Connection, exported_snapshot, resolved
from common.errors import SnapshotTooOld
from common.settings import Settings
from common.slot_position import RegisteredSlot
from counting import ranges
from pyspark.sql import DataFrame, SparkSession

from loader.preflight.table_identity import TableIdentities
from waltally import followed, lsn
from waltally.facts import Fact, needed_columns, source_tables
from waltally.tables import Table
from warehouse import groups, watermark
from warehouse.rejected import Rejected


@dataclass(frozen=True)
class Built:
    """The fact as it was at `position`: every change with a commit LSN below it is applied.

    The change log begins at `log_start`. `baseline_lsn` is the newest baseline's, None without
    one; `baseline_id` is of the baseline that the fact was built on.
    """

    fact: Fact
    position: int
    log_start: int
    baseline_lsn: int | None
    baseline_id: str | None
    is_on_newest_baseline: bool
    snapshot: Snapshot
    queries: Sequence[str]
    remembered_query: str
    counted: TableIdentities
    rejected: Rejected
    emptied: Mapping[str, int]
    """By source table, a position after the last drop or TRUNCATE of a partition that the fact
    ignores as it ignores deletes."""

    def stored(self, spark: SparkSession) -> DataFrame:
        """Return what is stored of the fact, to be read within `open_facts`: groups with a part.

        The slot's rows of the fact have no part; those with one are of purged rows, as the newest
        baseline has them.
        """
        return groups.read(spark, self.snapshot, [*self.queries, self.remembered_query], self.fact)


@contextlib.contextmanager
def open_fact(target: Connection, settings: Settings, fact: Fact) -> Iterator[Built]:
    """Yield the fact as `open_facts` does."""
    with open_facts(target, settings, [fact]) as (found,):
        yield found


@contextlib.contextmanager
def open_facts(
    target: Connection, settings: Settings, facts: Sequence[Fact]
) -> Iterator[list[Built]]:
    """Yield the facts as of one moment; their rows can be read within the block.

    Raises NotSetUp where one was never built, SettingError where it was built by another
    declaration, SnapshotTooOld where the change log does not reach back to its position.
    """
    with exported_snapshot(target) as name:
        snapshot = Snapshot(resolved(target), name)
        yield [_read(target, settings, fact, snapshot) for fact in facts]


def slot(target: Connection, settings: Settings) -> RegisteredSlot:
    """Return the slot's row as it is now. Raises NotSetUp where the slot is gone."""
    return slot_position.read(target, settings.schema, settings.slot)


def refuse_gap(start: int, position: int, relation: Table) -> None:
    """Raise SnapshotTooOld where changes that the fact lacks were pruned from the change log."""
    if start > position:
        raise SnapshotTooOld(
            f"{relation} holds changes up to {lsn.show(position)} and the change log begins at"
            f" {lsn.show(start)}: the changes between are in neither",
            "`spark-submit spark/seed.py`, then `dbt build`, then the audit again",
        )


def refuse_other_partitions(registered: RegisteredSlot, fact: Fact, position: int) -> None:
    """Raise SnapshotTooOld where rows came or went without changes after the fact's position."""
    for table in source_tables([fact]):
        begin = followed.since(registered.followed, table, needed_columns([fact], table))
        if begin is not None and begin > position:
            raise SnapshotTooOld(
                f"{fact.relation} holds changes up to {lsn.show(position)}, and the change log is"
                f" whole for {table} only from {lsn.show(begin)} on: its partitions came or went,"
                " or it was not followed",
                f"`spark-submit spark/seed.py --fact {fact.name}`, then `dbt build`",
            )


def _read(target: Connection, settings: Settings, fact: Fact, snapshot: Snapshot) -> Built:
    registered = slot(target, settings)
    built = watermark.read(target, settings.schema, settings.slot, fact)
    refuse_gap(registered.start_lsn, built.applied_lsn, fact.relation)
    newest = target.execute(
        "select snapshot_lsn::text, baseline_id::text, table_identities"
        f" from {Table(settings.schema, 'baseline').quoted}"
        " where slot_name = %s and fact_name = %s",
        (settings.slot, fact.name),
    ).fetchone()
    baseline_lsn, baseline_id, counted = newest or (None, None, registered.table_identities)
    queries = [
        groups.fact_query(fact, settings.slot, f"only {leaf.table.quoted}", condition)
        for leaf in ranges.leaves(target, fact.relation)
        for condition in ranges.cut(leaf, ranges.PAGES_PER_RANGE)
    ]
    return Built(
        fact,
        built.applied_lsn,
        registered.start_lsn,
        None if baseline_lsn is None else lsn.parse(str(baseline_lsn)),
        built.baseline_id,
        built.baseline_id == baseline_id,
        snapshot,
        queries,
        groups.baseline_query(fact, settings.schema, settings.slot, "purged"),
        cast(TableIdentities, counted or {}),
        _rejected(target, settings, fact),
        {
            table: root.emptied_lsn
            for table, root in registered.leaves.items()
            if root.emptied_lsn is not None
        },
    )


def _rejected(target: Connection, settings: Settings, fact: Fact) -> Rejected:
    """Return the rejected changes; none where the model rejected_changes was never built."""
    listed = Table(fact.relation.schema, "rejected_changes").quoted
    if target.execute("select to_regclass(%s)", (listed,)).fetchone() == (None,):
        return Rejected(0, None)
    row = target.execute(
        f"select count(*), min(commit_lsn)::text from {listed} where slot_name = %s and fact = %s",
        (settings.slot, str(fact.relation)),
    ).fetchone()
    assert row is not None
    return Rejected(int(str(row[0])), None if row[1] is None else lsn.parse(str(row[1])))
