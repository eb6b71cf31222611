from __future__ import annotations

import pytest
from common.progress import Measure, line
from common.settings import Settings, counted_tables, parse_lsn
from counting.counts import NULL_DIMENSION, count_groups, dimensions
from counting.ranges import Leaf, cut, plan
from counting.visibility import Visibility, unfinished
from pyspark.sql import SparkSession

from waltally.errors import SettingError
from waltally.tables import Table, parse_tables

SCHEMA = (
    "source_table string, service_id string, template_id string,"
    " notification_type string, notification_status string"
)

S, T = "11111111-aaaa-1111-1111-111111111111", "22222222-aaaa-2222-2222-222222222222"


def test_rows_are_counted_by_table_and_dimensions(spark: SparkSession) -> None:
    rows = [
        ("live", S, T, "sms", "sent"),
        ("live", S.upper(), T.upper(), "sms", "sent"),
        ("live", S, T, "sms", "Sent"),
        ("archive", S, T, "sms", "sent"),
    ]
    counted = count_groups(spark.createDataFrame(rows, SCHEMA)).collect()
    assert {tuple(row) for row in counted} == {
        ("live", S, T, "sms", "sent", 2, None),
        ("live", S, T, "sms", "Sent", 1, None),
        ("archive", S, T, "sms", "sent", 1, None),
    }


def test_binary_ids_are_counted_as_they_are_and_told_as_text(spark: SparkSession) -> None:
    # In the byte values of "A" and "a", which as text would be one.
    upper, lower = bytearray(b"A" * 16), bytearray(b"a" * 16)
    rows = [
        ("live", upper, T.upper(), "sms", "sent"),
        ("live", upper, T, "sms", "sent"),
        ("live", lower, T, "sms", "sent"),
        ("live", None, T, "sms", "sent"),
    ]
    schema = SCHEMA.replace("service_id string", "service_id binary")
    counted = count_groups(spark.createDataFrame(rows, schema)).collect()
    assert {tuple(row) for row in counted} == {
        ("live", "41414141-4141-4141-4141-414141414141", T, "sms", "sent", 2, None),
        ("live", "61616161-6161-6161-6161-616161616161", T, "sms", "sent", 1, None),
        ("live", None, T, "sms", "sent", 1, NULL_DIMENSION),
    }


def test_a_null_in_any_dimension_leaves_the_row_out(spark: SparkSession) -> None:
    whole = ("live", S, T, "sms", "sent")
    rows = [whole, *((*whole[:n], None, *whole[n + 1 :]) for n in range(1, 5))]
    counted = count_groups(spark.createDataFrame(rows, SCHEMA)).collect()
    assert [tuple(row) for row in counted if row["reason"] is None] == [(*whole, 1, None)]
    assert sum(row["reason"] == NULL_DIMENSION for row in counted) == 4


def test_binary_uuids_become_text(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [(bytearray(range(16)), "t", "sms", "sent", 1)],
        "service_id binary, template_id string, notification_type string,"
        " notification_status string, other int",
    )
    [row] = dimensions(rows, "live").collect()
    assert tuple(row) == ("live", "00010203-0405-0607-0809-0a0b0c0d0e0f", "t", "sms", "sent")


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


def test_an_empty_table_and_a_foreign_leaf_are_one_range_each() -> None:
    assert cut(Leaf(Table("a", "b"), 0), 2) == ["ctid >= '(0,0)'::tid"]
    assert cut(Leaf(Table("a", "b"), 0, has_addresses=False), 2) == ["true"]


def test_a_leaf_is_read_by_itself_under_the_name_of_its_table() -> None:
    table = Table("public", "n")
    [part] = plan([(table, [Leaf(Table("Odd", 'le"af'), 3)])], 1, {table: "1 as x"})
    assert part.source_table == "public.n"
    assert 'select 1 as x from only "Odd"."le""af" where' in part.query


def test_the_first_two_tables_of_the_setting_are_counted() -> None:
    assert counted_tables('public.a, "Odd.x"."b,""c" ,public.d') == (
        Table("public", "a"),
        Table("Odd.x", 'b,"c'),
    )


@pytest.mark.parametrize("text", ["", "a", "a.b,", "a.b c.d", "a.b.c"])
def test_a_list_of_tables_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingError):
        parse_tables(text)


def test_parquet_and_its_position_belong_together() -> None:
    tables = parse_tables("public.a")
    with pytest.raises(SettingError, match="belong together"):
        Settings("", "", "slot", tables, "cdc", parquet="/x")
    with pytest.raises(SettingError, match="not a WAL position"):
        parse_lsn("12", "--snapshot-lsn")


def test_progress_tells_rows_rate_and_time_left() -> None:
    assert line(Measure(25, 100, 5000), 10) == (
        " 25%, 5,000 rows read, 500 rows/s, about 30 s left"
    )


def test_connection_strings_are_not_shown() -> None:
    assert "secret" not in repr(Settings("password=secret", "password=secret", "s", (), "cdc"))
