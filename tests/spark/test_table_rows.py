"""With the option table a reader gets rows by their types, and not the stream's text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, IntegerType, StructType, TimestampType
from waltally_jobs.archiving.job import archive
from waltally_jobs.data_source.table_rows import TableRows, schema, spark_type

from testkit.commands import ROOT
from tests.spark.archives import Log
from tests.spark.test_data_source import PAGE, options, registered, run_example
from waltally import lsn
from waltally.errors import SettingError

__all__ = ["registered"]

NAME = r'public."Odd\one"'
TABLE = f"""
    create domain public.cents as numeric(12, 2);
    create type public.mood as enum ('so so', 'fine');
    create table {NAME} (
        id bigint primary key, small smallint, "the name" text, price public.cents, exact numeric,
        ratio real, share double precision, mood public.mood, is_paid boolean, day date,
        at timestamp, seen timestamptz, raw bytea, tags text[], long text, document jsonb
    );
    alter table {NAME} alter column long set storage external;
    create table public.other (id int primary key, text text);
"""
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
NOTHING = dict.fromkeys(OF_FULL)


class Stream:
    """A slot of the test's database, whose messages it stages as the loader does."""

    def __init__(self, log: Log) -> None:
        self.log = log
        log.run("select pg_create_logical_replication_slot('typed', 'wal2json')")
        log.run(TABLE)

    def stage(self, *statements: str) -> None:
        """Run the statements in one transaction, and stage what the plugin says of them."""
        for statement in statements:
            self.log.run(statement)
        log = self.log
        log.run(
            "insert into cdc.change_log"
            " (slot_name, commit_lsn, ordinal, xid, committed_at, action, payload)"
            " select %s, %s, row_number() over (order by ordinality), 7, '2026-11-25 12:00+00',"
            " data::json ->> 'action', data"
            " from pg_logical_slot_get_changes('typed', null, null, 'format-version', '2',"
            " 'include-types', 'false', 'include-transaction', 'false') with ordinality",
            log.source.slot,
            lsn.show(log.position),
        )
        log.position += 0x30
        log.run("update cdc.slot_position set position_lsn = %s", lsn.show(log.position))


@pytest.fixture
def stream(log: Log) -> Iterator[Stream]:
    yield Stream(log)
    log.run("select pg_drop_replication_slot('typed')")


def read(spark: SparkSession, log: Log, **more: str) -> DataFrame:
    given = options(log, table=NAME, **more)
    return spark.read.format("waltally").options(**given).load()


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows in the order of the log, without what is the same in each test."""
    found = [row.asDict(recursive=True) for row in frame.collect()]
    found.sort(key=lambda row: (row["commit_lsn"], row["ordinal"]))
    for row in found:
        assert row.pop("committed_at").astimezone(UTC) == datetime(2026, 11, 25, 12, tzinfo=UTC)
        row.pop("ordinal")
    return found


def test_rows_have_the_tables_types_and_the_old_row_beside_them(
    registered: SparkSession, stream: Stream
) -> None:
    log = stream.log
    begin = log.position
    stage = stream.stage
    stage(FULL, "insert into public.other values (1, 'one')")
    stage(f'update {NAME} set "the name" = null, id = 2')
    stage(f"alter table {NAME} replica identity full", f"update {NAME} set small = 1")
    stage(f"delete from {NAME}")
    stage(f"truncate {NAME}")
    frame = read(registered, log)
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    assert (kinds["price"], kinds["exact"], kinds["at"]) == (
        "decimal(12,2)",
        "string",
        "timestamp_ntz",
    )
    inserted, keyed, updated, deleted, emptied = found = rows(frame)
    assert [row["op"] for row in found] == ["insert", "update", "update", "delete", "truncate"]
    assert [row["commit_lsn"] for row in found] == [begin + 0x30 * n for n in range(5)]
    seen = inserted.pop("seen").astimezone(UTC)
    assert seen == datetime(2026, 11, 25, 8, tzinfo=UTC)
    own = {"commit_lsn": begin, "op": "insert", "old": None, "missing": []}
    assert inserted == {**OF_FULL, **own}
    # The key's old value, and no long text: it did not change, and is stored out of line.
    assert (keyed["id"], keyed["old"]["id"], keyed["the name"]) == (2, 1, None)
    assert (keyed["long"], keyed["missing"]) == (None, ["long"])
    # Under FULL it is in the old row.
    assert (updated["long"], updated["missing"]) == ("long" * 1000, [])
    assert (updated["small"], updated["old"]["small"], updated["old"]["id"]) == (1, -7, 2)
    assert {name: deleted[name] for name in NOTHING} == NOTHING
    assert deleted["old"]["price"] == Decimal("12.50")
    assert emptied["old"] is None


def test_the_readmes_example_writes_the_changes_to_a_lake(
    registered: SparkSession, stream: Stream, tmp_path: Path
) -> None:
    stream.stage(FULL)
    stream.stage(f'update {NAME} set "the name" = null, id = 2')
    lake = str(tmp_path / "order_updates")
    names = {"spark": registered, "TABLE": NAME, "OPTIONS": options(stream.log)}
    written = {"s3://lake/order_updates": lake, '"public.orders"': "TABLE"}
    run_example((ROOT / "README.md").read_text(), names, written)
    (kept,) = registered.read.parquet(lake).collect()
    assert (kept["op"], kept["id"], kept["old"]["id"], kept["the name"]) == ("update", 2, 1, None)


def test_a_value_that_the_type_does_not_have_is_null_and_named(
    registered: SparkSession, stream: Stream
) -> None:
    stream.stage(
        f"insert into {NAME} (id, day, at, seen) values (1, 'infinity', '-infinity',"
        " '12026-01-01'), (2, '2026-01-01', '2026-01-01', '2026-01-01')"
    )
    # And what the loader could not read.
    stream.log.append(3, at="2026-11-25T12:00:00Z")
    first, second, unread = rows(read(registered, stream.log))
    assert (unread["op"], unread["id"]) == (None, None)
    assert {*unread["missing"]} == {*OF_FULL, "seen"}
    assert (first["day"], first["at"], first["seen"]) == (None, None, None)
    assert first["missing"] == ["day", "at", "seen"]
    assert (second["day"], second["missing"]) == (date(2026, 1, 1), [])
    # As a text it is what it was.
    given = registered.read.format("waltally").schema("id int, day string, missing array<string>")
    chosen = given.options(**options(stream.log, table=NAME, source="host=/nowhere")).load()
    typed = chosen.where("id is not null").collect()
    assert sorted(map(tuple, typed)) == [(1, "infinity", []), (2, "2026-01-01", [])]


def test_an_archive_and_a_stream_have_the_same_rows(
    registered: SparkSession, stream: Stream, tmp_path: Any
) -> None:
    log = stream.log
    stream.stage(FULL)
    archive(log.settings(), registered)
    stream.stage(f"update {NAME} set small = 8")
    expected = rows(read(registered, log))
    assert [row["op"] for row in expected] == ["insert", "update"]
    log.prune(log.position - 0x30)
    assert rows(read(registered, log, archive=str(log.home))) == expected
    frame = (
        registered.readStream.format("waltally")
        .options(**options(log, table=NAME, archive=str(log.home)))
        .load()
    )
    followed: list[list[dict[str, Any]]] = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, number: followed.append(rows(batch)))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert [row for batch in followed for row in batch] == expected
    end, beyond = lsn.show(log.position), lsn.show(log.position + 0x1000)
    for bounds in ({"begin": end, "end": end}, {"begin": beyond}, {"begin": end, "end": "0/1"}):
        assert read(registered, log, **bounds).count() == 0


def test_the_pages_example_shows_what_an_update_changed(
    registered: SparkSession, stream: Stream, capsys: pytest.CaptureFixture[str]
) -> None:
    log = stream.log
    log.run("create table public.orders (id int primary key, state text)")
    log.run("alter table public.orders replica identity full")
    stream.stage("insert into public.orders values (7, 'new'), (8, 'new')")
    stream.stage("update public.orders set state = 'paid'")
    run_example(PAGE, {"spark": registered, "OPTIONS": options(log)}, has="public.orders")
    [row] = [line for line in capsys.readouterr().out.splitlines() if "2026" in line]
    before, after, _, count = (text.strip() for text in row.split("|")[1:5])
    assert (before, after, count) == ("new", "paid", "2")


def test_the_sessions_type_of_a_timestamp_changes_nothing(
    registered: SparkSession, log: Log, stream: Stream
) -> None:
    stream.stage(FULL)
    usual = read(registered, log).schema
    registered.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        found = read(registered, log)
        assert found.schema == usual
        assert found.count() == 1
        raw = registered.read.format("waltally").options(**options(log)).load()
        assert raw.schema["staged_at"].dataType == TimestampType()
    finally:
        registered.conf.unset("spark.sql.timestampType")


def test_a_table_that_cannot_be_read_is_refused(registered: SparkSession, log: Log) -> None:
    log.run('create table public.named ("Op" text)')
    log.run('create table public.twins (id int, "Name" text, name text)')
    says = r"no table public.gone in database .*\nTry: let the option source"
    with pytest.raises(PySparkException, match=says):
        registered.read.format("waltally").options(**options(log, table="public.gone")).load()
    for table, says in (
        ("licenses", "'licenses' is no table"),
        ("public.named", "public.named has a column Op, as each change has"),
        ("public.twins", "has the columns Name and name, which differ in case alone"),
    ):
        with pytest.raises(SettingError, match=says):
            schema(table, log.source.dsn)


def test_a_schema_that_no_value_fits_is_refused() -> None:
    for name, kind, says in (
        ("id", ArrayType(IntegerType()), "a column cannot be array<int>"),
        ("op", IntegerType(), "the column op is int"),
        ("old", IntegerType(), "the column old is int"),
    ):
        with pytest.raises(SettingError, match=says):
            TableRows.of("public.other", StructType().add(name, kind))


def test_a_numeric_is_a_decimal_only_where_it_fits_one() -> None:
    def packed(precision: int, scale: int) -> int:
        return ((precision << 16) | (scale & 0x7FF)) + 4

    assert spark_type("numeric", packed(38, 10)) == "decimal(38,10)"
    assert spark_type("numeric", packed(39, 2)) == "string"
    assert spark_type("numeric", packed(3, -2)) == "string"
    assert spark_type("numeric", packed(2, 5)) == "string"
    assert spark_type("numeric", -1) == "string"
