"""Reads changes for models, from the log, and writes them where they are added.

Executors import it. A task reads and makes changes in one function, so that no payload goes through
Spark.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from waltally.models import Model
from waltally.tables import Table
from waltally_jobs.common import arrow
from waltally_jobs.common.arrow import Read
from waltally_jobs.common.messages import Position
from waltally_jobs.moving.changes import SCHEMA, Collapsing

SLICE = 200_000
"""Changes that the database evaluates at once: an attempt of a task has as many at most."""

WRITTEN = "model int, attempt bigint, row_count bigint"
"""How many changes of a model an attempt has written."""


@dataclass(frozen=True)
class Place:
    """Where changes are written: `models` are the models' keys. `conninfo` may hold a password."""

    conninfo: str = field(repr=False)
    table: Table
    slot: str
    models: tuple[str, ...]
    batch: str


def changes_of(
    read: Read, models: Sequence[tuple[int, Model]], truncates: Mapping[Table, Position]
) -> Read:
    """Return what reads the changes of a range of messages, of SCHEMA, for these models."""
    return partial(_changes, read, models, truncates)


def _changes(
    read: Read, models: Sequence[tuple[int, Model]], truncates: Mapping[Table, Position]
) -> Iterator[pa.RecordBatch]:
    rows = itertools.chain.from_iterable(map(_rows_of, read()))
    yield from Collapsing(models, truncates).batches(rows)


def _rows_of(batch: pa.RecordBatch) -> Iterator[tuple[int, int, str | None, bytes]]:
    positions, ordinals, actions, payloads = batch.columns
    is_large = pa.types.is_large_string(payloads.type)
    # No text is made of what is JSON.
    raw = payloads.cast(pa.large_binary() if is_large else pa.binary())
    columns = (positions, ordinals, actions, raw)
    return zip(*(each.to_pylist() for each in columns), strict=True)


def move(spark: SparkSession, reads: Sequence[Read], place: Place) -> list[list[tuple[int, int]]]:
    """Write what the reads give; return by model the attempts that count, and their numbers.

    A task writes what it has read, so that no change goes through Spark's own memory. Raises what
    `spark_errors` makes a sentence of.
    """
    writes = [partial(_write, place, read) for read in reads]
    found: list[list[tuple[int, int]]] = [[] for _ in place.models]
    for row in arrow.collected(spark, writes, WRITTEN, "applying changes"):
        found[row["model"]].append((row["attempt"], row["row_count"]))
    return found


def _write(place: Place, read: Read) -> Iterator[pa.RecordBatch]:
    """Append changes in slices, each an attempt; yield the columns of WRITTEN."""
    remaining = read()
    for first in remaining:
        counts: Counter[int] = Counter()
        rows = _slice(place, first, remaining, counts)
        attempt = arrow.append(place.conninfo, place.table, rows)
        columns = arrow.schema(WRITTEN)
        yield arrow.batch_of(columns, [(model, attempt, count) for model, count in counts.items()])


def _slice(
    place: Place, first: pa.RecordBatch, remaining: Iterator[pa.RecordBatch], counts: Counter[int]
) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in itertools.chain([first], remaining):
        models = batch.column("model").to_pylist()
        counts.update(models)
        columns = {
            "slot_name": pa.array([place.slot] * len(models), pa.string()),
            "relation": pa.array([place.models[model] for model in models], pa.string()),
            "batch": pa.array([place.batch] * len(models), pa.string()),
            **{name: batch.column(name) for name in SCHEMA.names if name != "model"},
        }
        yield pa.RecordBatch.from_pydict(columns)
        rows += len(models)
        if rows >= SLICE:
            return
