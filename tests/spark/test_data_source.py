"""The format `waltally`: every change between two positions once, and rows by their types."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, IntegerType, StructType, TimestampType
from waltally_jobs.archiving.job import archive
from waltally_jobs.common import changes
from waltally_jobs.common.errors import SnapshotTooOld
from waltally_jobs.data_source.change_log import Log as Source
from waltally_jobs.data_source.change_log import Options, Range
from waltally_jobs.data_source.table_rows import TableRows, schema, spark_type

from testkit.commands import ROOT
from testkit.servers import free_port
from tests.spark.archives import COLUMNS, Log
from waltally import lsn
from waltally.errors import CannotConnect, SettingError

PAGE = (ROOT / "docs/spark.md").read_text()


@pytest.fixture
def registered(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, which knows the format `waltally`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "spark")
        importlib.import_module("waltally_source").register(spark)
        yield spark


Row = TypeVar("Row")
NAMES = [name for name in COLUMNS if not name.endswith("_at")]
"""Of positions and payloads these are enough."""


def listed(rows: DataFrame) -> list[tuple[Any, ...]]:
    """The rows as Log.rows has them."""
    return sorted(tuple(row) for row in rows.select(*NAMES).collect())


def rows_of(ranges: Sequence[Range]) -> list[tuple[Any, ...]]:
    """As `listed`, read without Spark."""
    rows = (row for each in ranges for batch in each.batches() for row in batch.to_pylist())
    return sorted(tuple(row[name] for name in NAMES) for row in rows)


def staged(log: Log, begin: int = 0, end: int = 2**62) -> list[tuple[Any, ...]]:
    return sorted(row[:3] + row[5:] for row in log.rows() if begin <= row[0] < end)


def options(log: Log, **more: str) -> dict[str, str]:
    return {"target": log.source.dsn, "slot": log.source.slot, **more}


def followed(
    spark: SparkSession,
    home: Path,
    read: Callable[[DataFrame], list[Row]],
    given: Mapping[str, str],
) -> list[list[Row]]:
    """What a stream has in each of its batches, from where it was before up to now."""
    batches: list[list[Row]] = []
    stream = spark.readStream.format("waltally").options(**given).load()
    query = (
        stream.writeStream.foreachBatch(lambda rows, _: batches.append(read(rows)))
        .option("checkpointLocation", str(home / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return batches


def run_example(
    page: str, names: dict[str, Any], instead: Mapping[str, str] | None = None, has: str = ""
) -> None:
    """Run the first example of a page that has these words, with OPTIONS and other words."""
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    example = next(each for each in examples if has in each)
    for written, own in {".load()": ".options(**OPTIONS).load()", **(instead or {})}.items():
        example = example.replace(written, own)
    exec(example, names)


def test_a_batch_is_what_is_between_two_positions(registered: SparkSession, log: Log) -> None:
    begin = log.position
    log.append(3, 1, 12)
    archive(log.settings(), registered)
    archived = log.position
    log.append(4, 2)
    everything = staged(log)
    bounds = {"begin": lsn.show(begin + 0x30), "end": lsn.show(archived + 0x30)}
    middle = staged(log, begin + 0x30, archived + 0x30)

    def read(**more: str) -> DataFrame:
        return registered.read.format("waltally").options(**options(log, **more)).load()

    found = sorted(read().collect(), key=lambda row: (row["commit_lsn"], row["ordinal"]))
    assert [tuple(row[name] for name in NAMES) for row in found] == everything
    moments = [(row["committed_at"].timestamp(), row["staged_at"].timestamp()) for row in found]
    assert moments == [(row[3].timestamp(), row[4].timestamp()) for row in log.rows()]
    assert {row["slot_name"] for row in found} == {log.source.slot}
    assert listed(read(**bounds)) == middle
    log.prune(archived)
    assert listed(read(archive=str(log.home))) == everything
    with pytest.raises(PySparkException, match="the change log holds those from"):
        read(**bounds).count()
    log.prune(archived + 0x30)
    with pytest.raises(PySparkException, match=r"and the archive those from.*\nTry: ask for"):
        read(archive=str(log.home), **bounds).count()


def test_ranges_meet_and_each_is_read_whole_or_not_at_all(
    spark: SparkSession, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(3, 1, 12, 1, 1, 1, 5, 5)
    everything = staged(log)
    archive(replace(log.settings(), slice_changes=30), spark)
    source = Source(Options.of(options(log)))
    with monkeypatch.context() as patch:
        patch.setattr(changes, "ends", partial(changes.ends, changes=5))
        ranges = source.ranges(source.begin, source.end)
    assert len(ranges) > 3
    assert rows_of(ranges) == everything
    log.prune(ranges[1].to_lsn)
    with pytest.raises(Exception, match="were pruned while they were read"):
        list(ranges[1].batches())
    assert list(ranges[2].batches())
    with pytest.raises(SnapshotTooOld, match="the change log holds"):
        source.ranges(source.begin, source.end + 1)
    source.close()

    # One that has run for long finds what was archived and pruned since.
    source = Source(Options.of(options(log, archive=str(log.home))))
    begin = source.begin
    log.append(1, 1)
    everything += staged(log)[-2:]
    archive(log.settings(), spark)
    log.prune(log.position)
    assert rows_of(source.ranges(begin, log.position)) == everything
    source.close()


def test_a_stream_has_each_change_once_and_prune_keeps_what_it_has_not_read(
    registered: SparkSession, log: Log, tmp_path: Path
) -> None:
    begin = log.position
    log.append(3, 1, 12)
    archive(log.settings(), registered)
    archived = log.position
    log.append(4, 2, 3, 3)
    everything = staged(log)
    given = options(log, archive=str(log.home), maxChanges="5", reader="test")

    def follow() -> list[list[tuple[Any, ...]]]:
        return followed(registered, tmp_path, listed, given)

    log.prune(archived)
    first = follow()
    # Whole slices of the archive, then whole transactions.
    assert [len(batch) for batch in first] == [16, 4, 5, 3]
    position = "select (applied_lsn - '0/0')::bigint from cdc.reader_position where reader = 'test'"
    [(read_lsn,)] = log.source.execute(position)
    assert begin < read_lsn <= log.position
    assert sorted(chain(*first)) == everything

    more = log.position
    log.append(1, 7)
    assert sorted(chain(*follow())) == staged(log, more)
    [(again_lsn,)] = log.source.execute(position)
    assert read_lsn < again_lsn <= log.position


def test_the_pages_example_counts_changes_per_table_and_minute(
    registered: SparkSession, log: Log, tmp_path: Path
) -> None:
    log.append(3, 2, at="2026-11-20T12:00:59Z")
    log.append(4, at="2026-11-20T12:01:00Z")
    names: dict[str, Any] = {
        "spark": registered,
        "OPTIONS": options(log),
        "FOLDER": str(tmp_path / "counts"),
        "CHECKPOINT": str(tmp_path / "checkpoint"),
    }
    run_example(PAGE, names, {'processingTime="10 seconds"': "availableNow=True"}, "foreachBatch")
    names["query"].awaitTermination()
    assert names["query"].exception() is None
    found = (
        registered.read.parquet(str(tmp_path / "counts"))
        .groupBy("table", "minute")
        .agg(sql.sum("changes").alias("changes"))
        .orderBy("minute")
        .collect()
    )
    assert [row["changes"] for row in found] == [5, 4]


def test_an_option_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, says in (
        ({"target": "host=h password=x"}, "has a password"),
        ({"offset": "1"}, "has no option offset; it has target, slot"),
        ({"maxChanges": "0"}, "maxChanges is '0'"),
        ({"begin": "yesterday"}, "not a WAL position"),
    ):
        with pytest.raises(SettingError, match=says):
            Options.of(given)
    monkeypatch.delenv("LOADER_TARGET_DSN", raising=False)
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    monkeypatch.setenv("PGPORT", str(free_port()))
    with pytest.raises(CannotConnect) as refused:
        Source(Options.of({}))
    assert "with the option target" in refused.value.remedy


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
    registered: SparkSession, stream: Stream, tmp_path: Path
) -> None:
    log = stream.log
    stream.stage(FULL)
    archive(log.settings(), registered)
    stream.stage(f"update {NAME} set small = 8")
    expected = rows(read(registered, log))
    assert [row["op"] for row in expected] == ["insert", "update"]
    log.prune(log.position - 0x30)
    assert rows(read(registered, log, archive=str(log.home))) == expected
    given = options(log, table=NAME, archive=str(log.home))
    batches = followed(registered, tmp_path, rows, given)
    assert [*chain(*batches)] == expected
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
