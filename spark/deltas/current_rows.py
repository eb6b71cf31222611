"""Applies changes to the current rows of a table. Pure: DataFrame to DataFrame, no driver.

Tasks judge the changes; they are folded in their order in Spark's driver, which holds the last
state of each row that changed.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from common.log_rows import rows_of
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from rules import messages
from rules.rows import TRUNCATE, Event, RowRules, folded
from rules.tallies import Position

from waltally.facts import Fact
from waltally.tables import Table

_STATES = "key array<string>, before array<string>, is_there array<boolean>, texts array<string>"
_JUDGED = (
    "kind string, commit_lsn bigint, ordinal bigint, gone array<string>, there array<boolean>,"
    " texts array<string>, key array<string>, note string"
)
_TEXTS = pa.list_(pa.string())
_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string()),
        pa.field("commit_lsn", pa.int64()),
        pa.field("ordinal", pa.int64()),
        pa.field("gone", _TEXTS),
        pa.field("there", pa.list_(pa.bool_())),
        pa.field("texts", _TEXTS),
        pa.field("key", _TEXTS),
        pa.field("note", pa.string()),
    ]
)
_BATCH = 20_000


def judged(
    changes: DataFrame, fact: Fact, slot: str, truncates: Mapping[Table, Position]
) -> DataFrame:
    """Return what the changes do to the rows: an event each, and a note of each task."""

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return judged_batches(batches, fact, slot, truncates)

    return changes.mapInArrow(judge, _JUDGED)


def judged_batches(
    batches: Iterator[pa.RecordBatch], fact: Fact, slot: str, truncates: Mapping[Table, Position]
) -> Iterator[pa.RecordBatch]:
    """Yield the same of the changes that a task reads."""
    (part,) = fact.tables
    changes = itertools.chain.from_iterable(map(rows_of, batches))
    rows = _judged(changes, fact, slot, truncates.get(part.table))
    while chunk := list(itertools.islice(rows, _BATCH)):
        columns = zip(*chunk, strict=True)
        arrays = [pa.array(each, kind.type) for each, kind in zip(columns, _SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _judged(
    rows: Iterable[tuple[int, int, str | None, bytes]],
    fact: Fact,
    slot: str,
    last: Position | None,
) -> Iterator[tuple[Any, ...]]:
    rules = RowRules(fact, slot)
    table = rules.part.table
    read = messages.reader({table: [rules.part.column(each) for each in rules.columns]})
    rejected: list[tuple[int, str]] = []
    left_out = 0
    for at, ordinal, letter, payload in rows:
        change = read(letter, payload)
        if change is None:
            is_last = last == (at, ordinal)
            if is_last:
                yield "event", at, ordinal, None, None, None, None, None
            continue
        event, reason, more = rules.judge(change)
        if reason is not None:
            rejected.append((at, reason))
        if last is not None and (at, ordinal) < last:
            continue
        left_out += more
        if event is not None:
            there = None if event.came is None else [is_there for is_there, _ in event.came]
            texts = None if event.came is None else [text for _, text in event.came]
            yield "event", at, ordinal, event.gone, there, texts, event.came_key, None
    note = {
        "rejected": [len(rejected), *min(rejected, default=(None, None))],
        "left_out": {rules.part.name: left_out} if left_out else {},
        "lacking": [],
    }
    yield "note", None, None, None, None, None, None, json.dumps(note)


def applied(rows: DataFrame, judged_rows: DataFrame, fact: Fact) -> DataFrame:
    """Return the rows after the changes, as groups of one row each: dimensions, sums.

    `judged_rows` has the changes as `judged` does.
    """
    states, is_emptied = folded(_events(judged_rows))
    spark = rows.sparkSession
    kept = rows.limit(0) if is_emptied else rows
    touched = spark.createDataFrame(
        [
            (
                list(key),
                None if row is None or row.before is None else list(row.before),
                None if row is None else [known for known, _ in row.values],
                None if row is None else [text for _, text in row.values],
            )
            for key, row in states.items()
        ],
        _STATES,
    )
    keyed = kept.withColumn("key", _key(fact, sql.col("dimensions")))
    unmoved = keyed.join(touched.select("key"), "key", "left_anti").select("dimensions")
    before = keyed.select(sql.col("key").alias("before"), sql.col("dimensions").alias("then"))
    is_whole = sql.forall("is_there", lambda known: known)
    put = touched.where("texts is not null")
    whole = put.where(is_whole).select(sql.col("texts").alias("dimensions"))
    completed = (
        put.where(~is_whole)
        .join(before, "before")
        .select(
            sql.transform(
                sql.arrays_zip("is_there", "texts", "then"),
                lambda each: sql.when(each["is_there"], each["texts"]).otherwise(each["then"]),
            ).alias("dimensions")
        )
    )
    found = unmoved.unionByName(whole).unionByName(completed)
    return found.withColumn("sums", sql.array(sql.lit("1")))


def _events(judged_rows: DataFrame) -> Iterator[Event]:
    """Return what happened to the rows, in order."""
    found = judged_rows.where("kind = 'event'").orderBy("commit_lsn", "ordinal")
    return (event_of(row.asDict()) for row in found.toLocalIterator(prefetchPartitions=True))


def event_of(row: Mapping[str, Any]) -> Event:
    """Return what an event of `judged` says."""
    gone, texts, key = row["gone"], row["texts"], row["key"]
    if gone is None and texts is None:
        return TRUNCATE
    return Event(
        None if gone is None else tuple(gone),
        None if texts is None else tuple(zip(row["there"], texts, strict=True)),
        None if key is None else tuple(key),
    )


def _key(fact: Fact, dimensions: Column) -> Column:
    places = [place for place, each in enumerate(fact.dimensions) if each.name in fact.key]
    return sql.array(*(sql.get(dimensions, place) for place in places))
