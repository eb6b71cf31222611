"""The format `waltally` has every change between two positions once."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from waltally_jobs.archiving.job import archive
from waltally_jobs.common import changes
from waltally_jobs.common.errors import SnapshotTooOld
from waltally_jobs.data_source.change_log import Log as Source
from waltally_jobs.data_source.change_log import Options, Range

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


def run_example(
    page: str,
    names: dict[str, Any],
    instead: Mapping[str, str] = MappingProxyType({}),
    has: str = "",
) -> None:
    """Run the first example of a page that has these words, with OPTIONS and other words."""
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    example = next(each for each in examples if has in each)
    for written, own in {".load()": ".options(**OPTIONS).load()", **instead}.items():
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
        batches: list[list[tuple[Any, ...]]] = []
        stream = registered.readStream.format("waltally").options(**given).load()
        query = (
            stream.writeStream.foreachBatch(lambda rows, _: batches.append(listed(rows)))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return batches

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
