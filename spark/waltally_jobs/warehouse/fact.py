"""A fact as it is built: its state, and its rows, position and baseline as of one moment."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession
from rules.tallies import Rejected

from loader.source.asking_tables import COUNTED
from loader.source.table_identity import TableIdentities
from loader.staging.records import STATE_COLUMNS, ModelState
from waltally import lsn
from waltally.facts import Fact, FactTable
from waltally.tables import Table, literal
from waltally_jobs.common.arrow import Snapshot, queries
from waltally_jobs.common.connections import TargetSession, exported_snapshot, resolved
from waltally_jobs.common.gathering import Gathered, gather
from waltally_jobs.evaluation import ranges
from waltally_jobs.warehouse import groups


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

    @property
    def is_whole(self) -> bool:
        """Whether its baseline and the changes since then are stored, so that it can be rebuilt."""
        return self.baseline_lsn is not None and self.log_start <= self.baseline_lsn

    def emptied_parts(self, emptied: Mapping[str, int]) -> list[FactTable]:
        """Return the tables of which a partition went after the baseline; its rows still count.

        No change said which rows these were. `emptied` is what the target session's `emptied` said
        once the loader had come to where the tables were counted.
        """
        return [
            part
            for part in self.fact.tables
            if part.ignores_deletes and emptied.get(str(part.table), 0) > (self.baseline_lsn or 0)
        ]

    def stored(self, start: Callable[[], SparkSession] | None, buckets: int) -> Gathered:
        """Read what is stored of the fact, within `open_facts`: its rows, and archived deletes.

        Its rows are of the kind ROWS, the archived deletes of the kind of their part.
        """
        reads = queries(
            self.snapshot.conninfo, [*self.queries, self.archived_query], self.snapshot.name
        )
        return gather(start, reads, groups.tables_of(self.fact, buckets))


@contextlib.contextmanager
def open_facts(target: TargetSession, facts: Sequence[Fact]) -> Iterator[list[Built]]:
    """Yield the facts as of one moment; their rows can be read within the block.

    Raises NotSetUp or BuildFailed where one does not follow the change log.
    """
    with exported_snapshot(target) as name:
        snapshot = Snapshot(resolved(target), name)
        yield [read(target, fact, snapshot) for fact in facts]


def is_gap(target: TargetSession, fact: Fact, position: int) -> bool:
    """Return whether the log lacks changes of the fact's tables from the position on."""
    limits = target.limits([fact])
    return any(position < at for at, kind, *_ in limits if kind != "baseline")


def read(target: TargetSession, fact: Fact, snapshot: Snapshot) -> Built:
    """Return a fact as the session sees it, in the transaction that exported the snapshot.

    Raises NotSetUp or BuildFailed where it does not follow the change log.
    """
    registered = target.position()
    position = applied_lsn(target, fact)
    [(_, baseline_lsn, identities)] = [
        row for row in target.ask_staging(COUNTED, (target.slot,)) if row[0] == fact.name
    ]
    own = [
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
        own,
        groups.archived_query(fact, target),
        identities or {},
        _rejected(target, fact),
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


def read_state(target: TargetSession, fact: Fact) -> ModelState:
    """Return the state of a registered fact."""
    (row,) = target.ask(
        f"select {STATE_COLUMNS} from {target.table('model_state')}"
        " where slot_name = %s and relation = %s",
        (target.slot, str(fact.relation)),
    )
    return ModelState.of(row)


def is_rebuild_due(target: TargetSession, facts: Sequence[Fact]) -> bool:
    """Return whether the next apply starts one of the facts from its baseline."""
    rows = target.ask(
        "select bool_or(step = 'rebuild' and error is null)"
        f" from {target.table('plan_models')}(%s) where model_name = any (%s)",
        (target.slot, [str(fact.relation) for fact in facts]),
    )
    return rows == [(True,)]


def applied_lsn(target: TargetSession, fact: Fact) -> int:
    """Return the position of a fact that follows. Raises NotSetUp, or BuildFailed."""
    found = read_state(target, fact)
    if found.error:
        raise found.error
    assert found.applied_lsn is not None
    return found.applied_lsn


def baseline_id(target: TargetSession, fact: Fact) -> str | None:
    """Return which baseline a fact that follows stands on; None where on none."""
    rows = target.ask(
        f"select baseline_id::text from {target.table('baseline')}"
        " where slot_name = %s and fact_name = %s",
        (target.slot, fact.name),
    )
    return str(rows[0][0]) if rows else None
