"""The format `waltally`: every change between two positions once, and rows by their types."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, IntegerType, StructType, TimestampType
from waltally_jobs.common import changes
from waltally_jobs.common.connections import connect_target
from waltally_jobs.common.errors import SnapshotTooOld
from waltally_jobs.data_source.change_log import ranges_of
from waltally_jobs.data_source.options import Options
from waltally_jobs.data_source.table_rows import TableRows, schema

from testkit.commands import ROOT
from tests.spark.log import COLUMNS, NAME, Log, Stream, plain, rows_of
from waltally import lsn
from waltally.errors import SettingError

PAGE = (ROOT / "docs/spark.md").read_text()


def staged(log: Log, begin: int = 0, end: int = 2**62) -> list[tuple[Any, ...]]:
    return plain(row for row in log.rows() if begin <= row[0] < end)


def listed(rows: DataFrame) -> list[tuple[Any, ...]]:
    return plain(rows.select(*COLUMNS).collect())


def options(log: Log, **more: str) -> dict[str, str]:
    return {"target": log.source.dsn, "slot": log.source.slot, **more}


def read(spark: SparkSession, log: Log, **more: str) -> DataFrame:
    return spark.read.format("waltally").options(**options(log, **more)).load()


def followed(spark: SparkSession, log: Log, home: Path, **more: str) -> list[list[tuple[Any, ...]]]:
    """What a stream has in each of its batches, from where it was before up to now."""
    batches: list[list[tuple[Any, ...]]] = []
    stream = spark.readStream.format("waltally").options(**options(log, **more)).load()
    query = (
        stream.writeStream.foreachBatch(lambda rows, _: batches.append(listed(rows)))
        .option("checkpointLocation", str(home / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return batches


def run_example(page: str, has: str, names: dict[str, Any], **instead: str) -> None:
    """Run the first example of a page that has these words, with OPTIONS and other words."""
    example = next(
        each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if has in each
    )
    for written, own in {".load()": ".options(**OPTIONS).load()", **instead}.items():
        example = example.replace(written, own)
    exec(example, names)


def test_a_batch_is_what_is_between_two_positions(spark: SparkSession, log: Log) -> None:
    begin = log.position
    log.append(3, 1, 12)
    middle = log.position
    log.append(4, 2)
    bounds = {"begin": lsn.show(begin + 0x30), "end": lsn.show(middle + 0x30)}
    assert listed(read(spark, log)) == staged(log)
    assert listed(read(spark, log, **bounds)) == staged(log, begin + 0x30, middle + 0x30)
    assert read(spark, log).select("slot_name").distinct().collect() == [(log.source.slot,)]
    end, beyond = lsn.show(log.position), lsn.show(log.position + 0x1000)
    for none in ({"begin": end, "end": end}, {"begin": beyond}, {"begin": end, "end": "0/1"}):
        assert read(spark, log, **none).count() == 0
    log.prune(middle)
    with pytest.raises(PySparkException, match=r"the change log holds those from.*\nTry: ask for"):
        read(spark, log, **bounds).count()


def test_ranges_meet_and_each_is_read_whole_or_not_at_all(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(3, 1, 12, 1, 1, 1, 5, 5)
    everything = staged(log)
    begin, end = everything[0][0], log.position
    with (
        closing(connect_target(Options.of(options(log)))) as target,
        monkeypatch.context() as patch,
    ):
        with pytest.raises(SnapshotTooOld, match="the change log holds"):
            ranges_of(target, begin, end + 1)
        patch.setattr(changes, "ends", partial(changes.ends, changes=5))
        ranges = ranges_of(target, begin, end)
    assert len(ranges) > 3
    assert rows_of(ranges) == everything
    log.prune(ranges[1].to_lsn)
    with pytest.raises(Exception, match="were pruned while they were read"):
        list(ranges[1].batches())
    assert list(ranges[2].batches())


def test_a_stream_has_each_change_once_and_prune_keeps_what_it_has_not_read(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    begin = log.position
    log.append(3, 1, 12)
    everything = staged(log)
    for lengths in ([4, 12], [1, 7]):
        given = {"maxChanges": "5", "reader": "test"}
        found = followed(spark, log, tmp_path, **given)
        assert [len(batch) for batch in found] == lengths
        assert sorted(chain(*found)) == everything
        position = "select (applied_lsn - '0/0')::bigint from cdc.reader_position"
        assert begin < log.source.value(position) <= log.position
        begin = log.position
        log.append(1, 7)
        everything = staged(log, begin)


FULL = f"""
    insert into {NAME} values (1, -7, 'Zoë "x"', 12.50, 1e-30, 1.5, 1e300, 'so so', true,
        '2026-11-25', '2026-11-25 10:00:00.5', '2026-11-25 10:00:00+02', '\\x00ff', '{{a,"b c"}}',
        repeat('long', 1000), '{{"a": [1.50]}}')
"""
OF_FULL = {
    "id": 1,
    "small": -7,
    "the name": 'Zoë "x"',
    "price": Decimal("12.50"),
    "exact": "0.000000000000000000000000000001",
    "ratio": 1.5,
    "share": 1e300,
    "mood": "so so",
    "is_paid": True,
    "day": date(2026, 11, 25),
    "at": datetime(2026, 11, 25, 10, 0, 0, 500_000),
    "raw": b"\x00\xff",
    "tags": '{a,"b c"}',
    "long": "long" * 1000,
    "document": '{"a": [1.50]}',
}


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows in the order of the log, without what is the same in each test."""
    found = [row.asDict(recursive=True) for row in frame.collect()]
    found.sort(key=lambda row: (row["commit_lsn"], row.pop("ordinal")))
    for row in found:
        assert row.pop("committed_at").astimezone(UTC) == datetime(2026, 11, 25, 12, tzinfo=UTC)
    return found


def test_rows_have_the_tables_types_and_the_old_row_beside_them(
    spark: SparkSession, stream: Stream
) -> None:
    """Whatever type a timestamp is for the session."""
    log = stream.log
    begin = log.position
    stage = stream.stage
    stage(FULL, "insert into public.other values (1, 'one')")
    stage(f'update {NAME} set "the name" = null, id = 2')
    stage(f"alter table {NAME} replica identity full", f"update {NAME} set small = 1")
    stage(f"delete from {NAME}")
    stage(f"truncate {NAME}")
    usual = read(spark, log, table=NAME).schema
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        frame = read(spark, log, table=NAME)
        assert frame.schema == usual
        assert read(spark, log).schema["staged_at"].dataType == TimestampType()
        inserted, keyed, updated, deleted, emptied = found = rows(frame)
    finally:
        spark.conf.unset("spark.sql.timestampType")
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    own = [kinds[name] for name in ("price", "exact", "at")]
    assert own == ["decimal(12,2)", "string", "timestamp_ntz"]
    assert [row["op"] for row in found] == ["insert", "update", "update", "delete", "truncate"]
    assert [row["commit_lsn"] for row in found] == [begin + 0x30 * n for n in range(5)]
    seen = inserted.pop("seen").astimezone(UTC)
    assert seen == datetime(2026, 11, 25, 8, tzinfo=UTC)
    of_change = {"commit_lsn": begin, "xid": 7, "op": "insert", "old": None, "missing": []}
    of_change["other_columns"] = None
    assert inserted == {**OF_FULL, **of_change}
    # The key's old value, and no long text: it did not change, and is stored out of line.
    assert (keyed["id"], keyed["old"]["id"], keyed["the name"]) == (2, 1, None)
    assert (keyed["long"], keyed["missing"]) == (None, ["long"])
    # Under FULL it is in the old row.
    assert (updated["long"], updated["missing"]) == ("long" * 1000, [])
    assert (updated["small"], updated["old"]["small"], updated["old"]["id"]) == (1, -7, 2)
    assert {deleted[name] for name in OF_FULL} == {None}
    assert deleted["old"]["price"] == Decimal("12.50")
    assert emptied["old"] is None


def test_a_value_that_the_type_does_not_have_is_null_and_named(
    spark: SparkSession, stream: Stream
) -> None:
    stream.stage(
        f"insert into {NAME} (id, day, at, seen) values (1, 'infinity', '-infinity',"
        " '12026-01-01'), (2, '2026-01-01', '2026-01-01', '2026-01-01')"
    )
    # And what the loader could not read.
    stream.log.append(3, at="2026-11-25T12:00:00Z")
    first, second, unread = rows(read(spark, stream.log, table=NAME))
    assert (unread["op"], unread["id"]) == (None, None)
    assert {*unread["missing"]} == {*OF_FULL, "seen"}
    assert (first["day"], first["at"], first["seen"]) == (None, None, None)
    assert first["missing"] == ["day", "at", "seen"]
    assert (second["day"], second["missing"]) == (date(2026, 1, 1), [])
    # As a text it is what it was.
    given = spark.read.format("waltally").schema("id int, day string, missing array<string>")
    chosen = given.options(**options(stream.log, table=NAME, source="host=/nowhere")).load()
    typed = chosen.where("id is not null").collect()
    assert sorted(map(tuple, typed)) == [(1, "infinity", []), (2, "2026-01-01", [])]


def test_the_examples_of_the_pages(
    spark: SparkSession, stream: Stream, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Changes per table and minute; what an update changed; updates that go to a lake."""
    log = stream.log
    names: dict[str, Any] = {"spark": spark, "OPTIONS": options(log)}
    log.append(3, 2, at="2026-11-20T12:00:59Z")
    log.append(4, at="2026-11-20T12:01:00Z")
    names |= {"FOLDER": str(tmp_path / "counts"), "CHECKPOINT": str(tmp_path / "checkpoint")}
    now = {'processingTime="10 seconds"': "availableNow=True"}
    run_example(PAGE, "foreachBatch", names, **now)
    names["query"].awaitTermination()
    assert names["query"].exception() is None
    counts = spark.read.parquet(names["FOLDER"]).groupBy("table", "minute")
    rows = counts.agg(sql.sum("changes").alias("changes")).orderBy("minute").collect()
    assert [row["changes"] for row in rows] == [5, 4]

    stream.stage("insert into public.orders values (7, 'new'), (8, 'new')")
    stream.stage("update public.orders set state = 'paid'")
    run_example(PAGE, "public.orders", names)
    [shown] = [line for line in capsys.readouterr().out.splitlines() if "2026" in line]
    before, after, _, count = (text.strip() for text in shown.split("|")[1:5])
    assert (before, after, count) == ("new", "paid", "2")
    lake = {"s3://lake/order_updates": str(tmp_path / "lake")}
    run_example((ROOT / "README.md").read_text(), "", names, **lake)
    kept = spark.read.parquet(str(tmp_path / "lake")).orderBy("id").collect()
    assert [(row["op"], row["id"], row["old"]["state"], row["state"]) for row in kept] == [
        ("update", number, "new", "paid") for number in (7, 8)
    ]


def test_what_cannot_be_read_is_refused(spark: SparkSession, stream: Stream) -> None:
    dsn = stream.log.source.dsn
    of_table = partial(TableRows.of, "public.other")
    for refused, says in (
        (lambda: Options.of({"target": "host=h password=x"}), "has a password"),
        (lambda: Options.of({"offset": "1"}), "has no option offset; it has target, slot"),
        (lambda: Options.of({"maxChanges": "0"}), "maxChanges is '0'"),
        (lambda: Options.of({"begin": "yesterday"}), "not a WAL position"),
        (lambda: schema("licenses", dsn), "'licenses' is no table"),
        (lambda: schema("public.named", dsn), "has a column Op, and the change or"),
        (lambda: schema("public.twins", dsn), "has a column Name, and"),
        (lambda: of_table(StructType().add("id", ArrayType(IntegerType()))), "be array<int>"),
        (lambda: of_table(StructType().add("op", IntegerType())), "the column op is int"),
        (lambda: of_table(StructType().add("old", IntegerType())), "the column old is int"),
    ):
        with pytest.raises(SettingError, match=says):
            refused()
    with pytest.raises(PySparkException, match=r"no table public.gone in .*\nTry: let the option"):
        read(spark, stream.log, table="public.gone")


def test_a_numeric_is_a_decimal_only_where_it_fits_one(stream: Stream) -> None:
    kinds = re.findall("`([a-e])` ([^ ]*), ", schema("public.numbers", stream.log.source.dsn))
    assert kinds == [("a", "decimal(38,10)"), *((name, "string") for name in "bcde")]
