"""Reads groups from the target, of a fact or of its baseline, as texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as compute
from common import arrow, sums
from common.arrow import Snapshot, Task
from common.buckets import by_bucket, chunks
from common.connections import TargetSession
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from waltally.facts import Fact
from waltally.tables import Table, literal, quoted

ROWS = ""
"""What the rows of a fact are called beside its parts."""


def read(spark: SparkSession, snapshot: Snapshot, queries: Sequence[str], fact: Fact) -> DataFrame:
    """Return the groups of these queries, to be read while the snapshot is open.

    The columns are part, dimensions and sums; part is null in a fact.
    """
    dimensions, sums = _columns(fact)
    ddl = ", ".join(f"{name} string" for name in ("part", *dimensions, *sums))
    found = arrow.rows(spark, snapshot.conninfo, queries, ddl, snapshot.name)
    return found.select(
        "part", sql.array(*dimensions).alias("dimensions"), sql.array(*sums).alias("sums")
    )


def tables_of(fact: Fact, buckets: int) -> Task:
    """Return the task that makes tables of the rows of these queries: by part, or `rows`."""
    dimensions, adds = _columns(fact)

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in chunks(batches):
            own = [table[name] for name in dimensions]
            yield from _tables(table["part"], own, [table[name] for name in adds], fact, buckets)

    return make


def tables_of_lists(fact: Fact, buckets: int) -> Task:
    """Return the same of the groups of an archive, which have lists: part, dimensions, sums."""

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in chunks(batches):
            own = [
                compute.list_element(table["dimensions"], place)
                for place in range(len(fact.dimensions))
            ]
            adds = [compute.list_element(table["sums"], at) for at in range(len(fact.measures))]
            yield from _tables(table["part"], own, adds, fact, buckets)

    return make


def _tables(
    parts: pa.ChunkedArray,
    dimensions: Sequence[pa.ChunkedArray],
    adds: Sequence[pa.ChunkedArray],
    fact: Fact,
    buckets: int,
) -> Iterator[pa.RecordBatch]:
    own = [column for column, each in zip(dimensions, fact.dimensions, strict=True) if each.column]
    keys, numbers = sums.key_names(len(own)), sums.sum_names(len(adds))
    parts = parts.fill_null(ROWS)
    columns = dict(zip([*keys, *numbers], [*own, *adds], strict=True))
    table = pa.table(columns)
    for part in compute.unique(parts).to_pylist():
        rows = table.filter(compute.equal(parts, part))
        for name in numbers:
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, name, sums.parsed(rows[name].combine_chunks()))
        yield from by_bucket(part, sums.added(rows, keys, numbers), buckets)


def fact_query(fact: Fact, slot: str, source: str, condition: str = "true") -> str:
    """Return the query of the slot's rows in the fact's table, or in the part that `source` is."""
    dimensions, sums = _columns(fact)
    selected = [
        f"{quoted(each.name)}::text as {name}"
        for each, name in zip(fact.dimensions, dimensions, strict=True)
    ]
    # Current rows have no measure: each is there once.
    selected += [
        f"{'1' if fact.kind == 'current_rows' else quoted(each.name)}::text as {name}"
        for each, name in zip(fact.measures, sums, strict=True)
    ]
    mine = [
        f"{quoted(each.name)} = {literal(slot)}" for each in fact.dimensions if each.kind == "slot"
    ]
    return (
        f"select null::text as part, {', '.join(selected)} from {source}"
        f" where {' and '.join([condition, *mine])}"
    )


def baseline_query(fact: Fact, target: TargetSession) -> str:
    """Return the query of the fact's baseline."""
    return (
        f"{_select_group(fact)} from {target.table('baseline_group')}"
        f" where slot_name = {literal(target.slot)} and fact_name = {literal(fact.name)}"
    )


def archived_query(fact: Fact, target: TargetSession) -> str:
    """Return the query of what was deleted from the tables whose deletes the fact ignores."""
    return (
        f"{_select_group(fact)} from {target.table('archived_delete')}"
        f" where slot_name = {literal(target.slot)} and model_name = {literal(str(fact.relation))}"
    )


def counted_query(fact: Fact, incoming: Table) -> str:
    """Return the query of what a seed has counted for the fact and not stored yet."""
    return (
        f"{_select_group(fact, 'sums')} from {incoming.quoted}"
        f" where fact = {literal(fact.name)} and reason is null"
    )


def _select_group(fact: Fact, numbers: str = "measures") -> str:
    dimensions, sums = _columns(fact)
    selected = [f"dimensions[{place}] as {name}" for place, name in enumerate(dimensions, 1)]
    selected += [f"{numbers}[{place}]::text as {name}" for place, name in enumerate(sums, 1)]
    return f"select part, {', '.join(selected)}"


def _columns(fact: Fact) -> tuple[list[str], list[str]]:
    """Return what the dimensions and the sums are called in queries, by their places."""
    return (
        [f"dimension_{place}" for place in range(len(fact.dimensions))],
        [f"sum_{place}" for place in range(len(fact.measures))],
    )
