"""Groups of a fact, of its baseline or of an archive: queries, and the tables that tasks make.

They have the columns part (null in a fact), dimensions and sums, whose numbers are texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as compute

from waltally.facts import Fact
from waltally.tables import Table, literal, quoted
from waltally_jobs.common import sums
from waltally_jobs.common.arrow import Task
from waltally_jobs.common.buckets import by_bucket, chunks, payload

if TYPE_CHECKING:
    from waltally_jobs.common.connections import TargetSession

ROWS = ""
"""What the rows of a fact are called beside its parts."""


def tables_of(fact: Fact, buckets: int) -> Task:
    """Return the task that makes tables of groups, by part, or ROWS."""
    places = [place for place, each in enumerate(fact.dimensions) if each.column]
    keys, names = sums.key_names(len(places)), sums.sum_names(len(fact.measures))

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in chunks(batches):
            own = (compute.list_element(table["dimensions"], place) for place in places)
            columns = {**dict(zip(keys, own, strict=True)), **_numbers(table, fact)}
            parts = table["part"].fill_null(ROWS)
            for part in compute.unique(parts).to_pylist():
                rows = pa.table(columns).filter(compute.equal(parts, part))
                yield from by_bucket(part, sums.added(rows, keys, names), buckets)

    return make


def totals_of(fact: Fact) -> Task:
    """Return the task that makes tables of a row: the number of groups, and what they add up to."""
    names = sums.sum_names(len(fact.measures))

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in chunks(batches):
            total = pa.table({"groups": [table.num_rows]})
            # Rows of a query have no number.
            if names:
                added = sums.added(pa.table(_numbers(table, fact)), [], names)
                total = added.append_column("groups", total["groups"])
            yield payload(ROWS, 0, total)

    return make


def _numbers(table: pa.Table, fact: Fact) -> dict[str, pa.Array]:
    """Return the sums of groups, each in a column of its own."""
    return {
        name: sums.parsed(compute.list_element(table["sums"], place).combine_chunks())
        for place, name in enumerate(sums.sum_names(len(fact.measures)))
    }


def fact_query(fact: Fact, slot: str, source: str, condition: str = "true") -> str:
    """Return the query of the slot's rows in the fact's table, or in the part that `source` is."""
    dimensions = ", ".join(f"{quoted(each.name)}::text" for each in fact.dimensions)
    # Current rows have no measure: each is there once.
    numbers = ", ".join(
        f"{'1' if fact.kind == 'current_rows' else quoted(each.name)}::text"
        for each in fact.measures
    )
    mine = [
        f"{quoted(each.name)} = {literal(slot)}" for each in fact.dimensions if each.kind == "slot"
    ]
    return (
        f"select null::text as part, array[{dimensions}]::text[] as dimensions,"
        f" array[{numbers}]::text[] as sums from {source}"
        f" where {' and '.join([condition, *mine])}"
    )


def baseline_query(fact: Fact, target: TargetSession) -> str:
    """Return the query of the fact's baseline."""
    return (
        f"select part, dimensions, measures::text[] as sums from {target.table('baseline_group')}"
        f" where slot_name = {literal(target.slot)} and fact_name = {literal(fact.name)}"
    )


def archived_query(fact: Fact, target: TargetSession) -> str:
    """Return the query of what was deleted from the tables whose deletes the fact ignores."""
    return (
        f"select part, dimensions, measures::text[] as sums from {target.table('archived_delete')}"
        f" where slot_name = {literal(target.slot)} and model_name = {literal(str(fact.relation))}"
    )


def counted_query(fact: Fact, incoming: Table) -> str:
    """Return the query of what a seed has counted for the fact and not stored yet."""
    return (
        f"select part, dimensions, sums from {incoming.quoted}"
        f" where fact = {literal(fact.name)} and reason is null"
    )
