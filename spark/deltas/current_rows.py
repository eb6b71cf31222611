"""Applies changes to the current rows of a table. Pure: DataFrame to DataFrame, no driver.

The old image of a change only says which row it was, so the changes of a row follow one another in
their order. A new image may lack a value that is stored out of line and did not change: it is that
of the row before, which may have had another key. The changes are folded in Spark's driver, which
holds the last state of each row that changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from deltas import images
from waltally.facts import Fact

Key = tuple[str, ...]

_STATES = "key array<string>, before array<string>, is_there array<boolean>, texts array<string>"


@dataclass(frozen=True)
class Event:
    """A change: the key of the row that it takes away and the values of the one that it puts.

    A value is (whether the image has it, its text). With neither key nor values it is a TRUNCATE.
    """

    gone: Key | None
    came: tuple[tuple[bool, str | None], ...] | None
    came_key: Key | None


@dataclass(frozen=True)
class Row:
    """A row after the changes; a value that the changes do not have is that of the row `before`."""

    values: tuple[tuple[bool, str | None], ...]
    before: Key | None


def applied(rows: DataFrame, classified: DataFrame, fact: Fact) -> DataFrame:
    """Return the rows after the changes, as groups of one row each: dimensions, sums.

    `classified` has the changes as rules.classify does.
    """
    states, is_emptied = folded(_events(classified, fact))
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


def folded(events: Iterable[Event]) -> tuple[dict[Key, Row | None], bool]:
    """Return the last state of each key that changed, and whether a TRUNCATE came before them.

    None where the row is gone. The events are in their order.
    """
    states: dict[Key, Row | None] = {}
    is_emptied = False
    for event in events:
        if event.gone is None and event.came is None:
            states, is_emptied = {}, True
            continue
        then: Row | None = None
        if event.gone is not None:
            then = states.get(event.gone)
            if event.gone not in states:
                unknown = (False, None)
                then = Row((unknown,) * len(event.came or ()), event.gone)
            states[event.gone] = None
        if event.came is not None and event.came_key is not None:
            states[event.came_key] = _completed(event.came, then)
    return states, is_emptied


def _completed(came: tuple[tuple[bool, str | None], ...], then: Row | None) -> Row:
    if then is None:
        return Row(came, None)
    values = tuple(new if new[0] else old for new, old in zip(came, then.values, strict=True))
    return Row(values, then.before)


def _events(classified: DataFrame, fact: Fact) -> Iterable[Event]:
    """Yield what happened to the rows, in order."""
    columns = images.columns(fact)
    there = sql.array(
        *(
            sql.col(images.field("new", columns.index(each.column))).isNotNull()
            if each.column
            else sql.lit(True)
            for each in fact.dimensions
        )
    )
    new = sql.col("new_texts")
    found = (
        classified.where("not is_unknown and (action = 'T' or counts_old or counts_new)")
        .select(
            "action",
            sql.when(sql.col("counts_old"), _key(fact, sql.col("old_texts"))).alias("gone"),
            sql.when(sql.col("counts_new"), there).alias("there"),
            sql.when(sql.col("counts_new"), new).alias("texts"),
            sql.when(sql.col("counts_new"), _key(fact, new)).alias("key"),
        )
        .orderBy("commit_lsn", "ordinal")
    )
    for row in found.toLocalIterator(prefetchPartitions=True):
        if row["action"] == "T":
            yield Event(None, None, None)
        else:
            yield Event(
                None if row["gone"] is None else tuple(row["gone"]),
                None
                if row["texts"] is None
                else tuple(zip(row["there"], row["texts"], strict=True)),
                None if row["key"] is None else tuple(row["key"]),
            )


def _key(fact: Fact, dimensions: Column) -> Column:
    places = [place for place, each in enumerate(fact.dimensions) if each.name in fact.key]
    return sql.array(*(sql.get(dimensions, place) for place in places))
