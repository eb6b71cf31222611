"""A fact as it is built: its rows, position and baseline, read in one transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from common.arrow import Snapshot
from common.connections import TargetSession, exported_snapshot, resolved
from common.errors import SnapshotTooOld
from counting import checks, ranges
from deltas.rules import Rejected
from pyspark.sql import DataFrame, SparkSession

from loader.source import table_identity
from loader.source.table_identity import TableIdentities
from waltally import lsn
from waltally.facts import Fact, FactTable
from waltally.tables import Table, literal
from warehouse import fact_state, groups


@dataclass(frozen=True)
class Built:
    """The fact as it was at `position`: every change with a commit LSN below it is applied.

    It was built on the baseline at `baseline_lsn`, None where on none. The change log begins at
    `log_start`.
    """

    fact: Fact
    position: int
    log_start: int
    baseline_lsn: int | None
    snapshot: Snapshot
    queries: Sequence[str]
    archived_query: str
    counted: TableIdentities
    rejected: Rejected
    emptied: Mapping[str, int]
    """By source table, a position after the last drop or TRUNCATE of a partition that the fact
    ignores as it ignores deletes."""

    @property
    def is_whole(self) -> bool:
        """Whether its baseline and the changes since then are stored, so that it can be rebuilt."""
        return self.baseline_lsn is not None and self.log_start <= self.baseline_lsn

    @property
    def emptied_parts(self) -> list[FactTable]:
        """The tables of which a partition went after the baseline, and its rows are still counted.

        No change said which rows these were.
        """
        return [
            part
            for part in self.fact.tables
            if part.ignores_deletes
            and self.emptied.get(str(part.table), 0) > (self.baseline_lsn or 0)
        ]

    def stored(self, spark: SparkSession) -> DataFrame:
        """Return what is stored of the fact, to be read within `open_facts`: groups with a part.

        The slot's rows of the fact have no part; those with one are its archived deletes.
        """
        return groups.read(spark, self.snapshot, [*self.queries, self.archived_query], self.fact)


@contextlib.contextmanager
def open_facts(target: TargetSession, facts: Sequence[Fact]) -> Iterator[list[Built]]:
    """Yield the facts as of one moment; their rows can be read within the block.

    Raises NotSetUp or BuildFailed where one does not follow the change log.
    """
    with exported_snapshot(target) as name:
        snapshot = Snapshot(resolved(target), name)
        yield [_read(target, fact, snapshot) for fact in facts]


def is_gap(target: TargetSession, fact: Fact, position: int) -> bool:
    """Return whether the log lacks changes of the fact's tables from the position on."""
    held = target.held_since([fact])
    slot = target.position()
    return checks.earliest(slot, held, None) > position


def refuse_gap(target: TargetSession, fact: Fact, position: int) -> None:
    """Raise SnapshotTooOld where the log has lost changes that the fact lacked when it was read."""
    if is_gap(target, fact, position):
        raise SnapshotTooOld(
            f"{fact.relation} was read at {lsn.show(position)}, and the change log has lost changes"
            " after that: it was pruned, or partitions of a table came or went",
            f"run the audit again; it says what helps if {fact.relation} waits then",
        )


def _read(target: TargetSession, fact: Fact, snapshot: Snapshot) -> Built:
    registered = target.position()
    position = fact_state.applied_lsn(target, fact)
    [(_, baseline_lsn, identities)] = [
        row
        for row in target.ask(table_identity.COUNTED, (target.slot,), target.schema)
        if row[0] == fact.name
    ]
    queries = [
        groups.fact_query(fact, target.slot, f"only {leaf.table.quoted}", condition)
        for leaf in ranges.leaves(target, fact.relation)
        for condition in ranges.cut(leaf, ranges.PAGES_PER_RANGE)
    ]
    return Built(
        fact,
        position,
        registered.start_lsn,
        None if baseline_lsn is None else lsn.parse(str(baseline_lsn)),
        snapshot,
        queries,
        groups.archived_query(fact, target),
        identities or {},
        _rejected(target, fact),
        target.emptied(),
    )


def _rejected(target: TargetSession, fact: Fact) -> Rejected:
    """Return the rejected changes; none where the model rejected_changes was never built."""
    listed = Table(fact.relation.schema, "rejected_changes").quoted
    if target.ask("select to_regclass(%s)", (listed,)) == [(None,)]:
        return Rejected(0, None)
    # No parameters: beside them a % in the schema's name would be one too.
    mine = f"slot_name = {literal(target.slot)} and fact = {literal(str(fact.relation))}"
    ((count, first),) = target.ask(
        f"select count(*), min(commit_lsn)::text from {listed} where {mine}"
    )
    return Rejected(count, None if first is None else lsn.parse(first))
