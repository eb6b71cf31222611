from __future__ import annotations

from typing import Any

import pytest
from common.command import Settings
from common.progress import Measure, line
from counting import values
from counting.counts import NULL_DIMENSION, count_groups, each_row_once
from counting.ranges import Leaf, Range, cut, plan
from counting.snapshot import Visibility, unfinished
from pyspark.sql import Row, SparkSession

from testkit.facts import declare, notify
from waltally.facts import Fact, parse
from waltally.tables import Table

LIVE, ARCHIVE = (part.table for part in notify().tables)
S, T = "11111111-aaaa-1111-1111-111111111111", "22222222-aaaa-2222-2222-222222222222"


def counted(
    spark: SparkSession,
    rows: list[tuple[Any, ...]],
    *facts: Fact,
    table: Table = LIVE,
    binary: tuple[int, ...] = (),
) -> list[Row]:
    """Count rows that have the values of `needed` in order; those at `binary` are bytes."""
    needed = values.needed(facts, table)
    schema = ", ".join(
        f"{values.column_name(place)} {'binary' if place in binary else 'string'}"
        for place in range(len(needed))
    )
    frame = spark.createDataFrame(rows, schema)
    once = each_row_once(frame, needed)
    return count_groups(once, needed, values.parts_of(facts, table), "the_slot").collect()


def groups(found: list[Row]) -> set[tuple[Any, ...]]:
    return {(*row["dimensions"], row["row_count"], row["reason"]) for row in found}


def test_binary_ids_are_counted_as_they_are_and_told_as_text(spark: SparkSession) -> None:
    # In the byte values of "A" and "a", which as text would be one.
    upper, lower = bytearray(b"A" * 16), bytearray(b"a" * 16)
    rows = [
        (upper, T.upper(), "sms", "sent"),
        (upper, T, "sms", "sent"),
        (lower, T, "sms", "sent"),
        (None, T, "sms", "sent"),
    ]
    assert groups(counted(spark, rows, notify(), binary=(0,))) == {
        ("41414141-4141-4141-4141-414141414141", T, "sms", "sent", 2, None),
        ("61616161-6161-6161-6161-616161616161", T, "sms", "sent", 1, None),
        (None, T, "sms", "sent", 1, NULL_DIMENSION),
    }


def test_binary_uuids_become_text_where_another_fact_has_a_text_in_their_place(
    spark: SparkSession,
) -> None:
    by_service = parse("a", LIVE, declare("public.notifications", ("service_id", "uuid")))
    by_type = parse("b", LIVE, declare("public.notifications", ("notification_type", "text")))
    found = counted(spark, [(bytearray(range(16)), "ünï")], by_service, by_type, binary=(0,))
    assert {(row["fact"], *row["dimensions"]) for row in found} == {
        ("a", "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        ("b", "ünï"),
    }


def test_a_fact_without_columns_counts_its_rows(spark: SparkSession) -> None:
    fact = parse("f", LIVE, declare("public.notifications"))
    frame = spark.createDataFrame([("",), ("",)], "value_0 string")
    [row] = count_groups(each_row_once(frame, ()), (), values.parts_of([fact], LIVE), "s").collect()
    assert (row["dimensions"], row["row_count"], row["sums"]) == ([], 2, ["2"])


@pytest.mark.parametrize(
    ("imported", "live", "expected"),
    [
        ("10:12:", "12:12:", []),
        ("10:12:", "11:12:11", [11]),
        ("10:12:11", "11:12:11", []),
        ("10:12:", "11:11:", [11]),
        ("10:12:11", "10:11:10", [10]),
        # A slot's snapshot: xmin above xmax, and all below xmin taken for finished.
        ("13:12:", "12:12:", [12]),
        ("13:12:", "13:13:", []),
        ("10:12:", "12:14:12,13", []),
    ],
)
def test_only_what_the_snapshot_takes_for_finished_is_waited_for(
    imported: str, live: str, expected: list[int]
) -> None:
    assert unfinished(Visibility.parse(imported), Visibility.parse(live)) == expected


def test_ranges_cover_every_page_once_and_the_last_is_open() -> None:
    assert cut(Leaf(Table("a", "b"), 5), 2) == [
        "ctid >= '(0,0)'::tid and ctid < '(2,0)'::tid",
        "ctid >= '(2,0)'::tid and ctid < '(4,0)'::tid",
        "ctid >= '(4,0)'::tid",
    ]


def test_a_whole_table_and_a_foreign_leaf_are_one_range_each() -> None:
    assert cut(Leaf(Table("a", "b"), 0), 2) == ["true"]
    assert cut(Leaf(Table("a", "b"), 2), 2) == ["true"]
    assert cut(Leaf(Table("a", "b"), 3), 2) == [
        "ctid >= '(0,0)'::tid and ctid < '(2,0)'::tid",
        "ctid >= '(2,0)'::tid",
    ]
    assert cut(Leaf(Table("a", "b"), 9, has_addresses=False), 2) == ["true"]


def test_a_leaf_is_read_by_itself_for_its_table() -> None:
    [part] = plan([Leaf(Table("Odd", 'le"af'), 3)], 4, "select 1 as x {}".format)
    assert part == Range('select 1 as x from only "Odd"."le""af" where true', 3)


def test_progress_tells_rows_rate_and_time_left() -> None:
    assert line(Measure(25, 100, 5000), 10) == (
        " 25%, 5,000 rows read, 500 rows/s, about 30 s left"
    )


def test_connection_strings_are_not_shown() -> None:
    assert "secret" not in repr(Settings("password=secret", "password=secret", "s", "cdc"))
